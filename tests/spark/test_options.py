"""The options of the data source: what is wrong with them is said by name, before any store is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.options import NAMES, OptionError, parse

URL = "sqlite:////tmp/jobs.db"


def test_names_have_no_case() -> None:
    assert parse({"URL": URL, "MAXOFFSETSPERTRIGGER": "10"}).max_offsets == 10


def test_a_relative_file_is_the_same_for_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    assert parse({"url": "sqlite:///jobs.db"}).url == f"sqlite:///{here}/jobs.db"
    assert parse({"url": "postgresql://db/jobs"}).url == "postgresql://db/jobs"


def test_without_a_url_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", "redis://cache:6379/1")
    monkeypatch.setenv("LOCALQUEUE_NAMESPACE", "shop")
    options = parse({"queue": "jobs"})
    assert (options.url, options.namespace, options.backend) == ("redis://cache:6379/1", "shop", "redis")


def test_the_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "secret" not in repr(parse({"url": "postgresql://me:secret@db/jobs"}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"viw": "dead"}, "option 'viw' is not known"),
        ({"view": "deads"}, "option 'view' must be one of messages, dead, events, runs, stats, not 'deads'"),
        ({"mode": "claim"}, "option 'mode' must be one of subscribe, consume, not 'claim'"),
        ({"mode": "consume"}, "option 'consumer' is missing"),
        ({"queue": " "}, "option 'queue' is empty"),
        ({"namespace": ""}, "option 'namespace' is empty"),
        ({"columns": "id,valu"}, "has no column 'valu'; it has id, queue, state, value"),
        ({"columns": ","}, "needs at least one column"),
        ({"columns": "id,id"}, "names a column twice"),
        ({"view": "stats", "columns": "value"}, "view 'stats' has no column 'value'"),
        ({"startingOffsets": "begin"}, "option 'startingOffsets' must be earliest, latest or an offset"),
        ({"startingOffsets": '{"claim": 3}'}, "option 'startingOffsets' must be"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets' must be latest or an offset"),
        ({"startingTimestamp": "yesterday"}, "option 'startingTimestamp' must be milliseconds"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "with its zone"),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, "both say where to begin"),
        ({"endingTimestamp": "0", "endingOffsets": "latest"}, "both say where to end"),
        ({"maxOffsetsPerTrigger": "0"}, "option 'maxOffsetsPerTrigger' must be a whole number from 1, not '0'"),
        ({"numPartitions": "two"}, "option 'numPartitions' must be a whole number"),
        ({"claimTimeout": "-1"}, "option 'claimTimeout' must be seconds above 0"),
        ({"includeHeaders": "yes"}, "option 'includeHeaders' must be true or false, not 'yes'"),
        ({"corruptRows": "ignore"}, "option 'corruptRows' must be one of column, fail, drop, dead-letter"),
        ({"engine": "duckdb"}, "option 'engine' must be one of auto, adbc, python"),
        ({"delivery": "fast"}, "option 'delivery' must be one of atomic, steps, direct"),
        ({"maxsize": "0"}, "option 'maxsize' must be a whole number from 1, not '0'"),
        ({"overflow": "drop-newest"}, "say when that is with option 'maxsize'"),
        ({"maxsize": "1", "overflow": "block"}, "option 'overflow' must be one of reject, drop-newest, drop-oldest"),
        ({"maxsize": "1", "overflow": "overflow-queue"}, "option 'overflowQueue' names that queue: give both"),
        ({"overflowQueue": "spare"}, "option 'overflowQueue' names that queue: give both or neither"),
        ({"subscribers": "a,,b"}, "option 'subscribers' must be names with commas: subscriber names cannot be empty"),
        ({"subscribers": "a,a"}, "subscriber names must be unique, in 'a,a'"),
        ({"fanout": "1"}, "option 'fanout' must be true or false, not '1'"),
        ({"path": "jobs.db"}, "option 'path' ('jobs.db') is not used: give the store as option 'url'"),
        ({"url": "memory://"}, "is a memory store, which only its own process can see"),
        ({"url": "jobs.db"}, "option 'url': can not open 'jobs.db'"),
    ],
)
def test_an_option_that_can_not_be_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as error:
        parse({"url": URL, **given})
    assert said in str(error.value)


def test_offsets_and_times_are_understood() -> None:
    options = parse({"url": URL, "startingOffsets": '{"seq": 12}', "endingOffsets": "20"})
    assert (options.starting, options.ending) == (12, 20)
    assert parse({"url": URL, "startingTimestamp": "1500"}).starting_at == 1.5
    assert parse({"url": URL, "endingTimestamp": "1970-01-01T00:01:00+00:00"}).ending_at == 60.0


def test_every_option_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []


BROKER = {"url": "amqp://guest:geheim@host/", "queue": "jobs", "mode": "consume", "consumer": "etl"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, r"option 'claimStore' is missing: amqp://.*host/ is a broker"),
        ({"claimStore": "memory://"}, "option 'claimStore' is a memory store"),
        ({"claimStore": "sqs://eu-central-1"}, "option 'claimStore' is a broker"),
        ({"claimStore": "nosuch://x"}, "option 'claimStore': "),
        ({"mode": "subscribe"}, "can not be used in mode 'subscribe': it can be consumed as a stream"),
        ({"url": "kafka://host:9092", "mode": "subscribe"}, r'Spark itself follows a topic, format\("kafka"\)'),
        ({"url": "sqlite:///jobs.db", "claimStore": "sqlite:///x.db"}, "option 'claimStore' is for brokers"),
    ],
)
def test_a_broker_is_consumed_with_its_claims_in_a_store_or_refused(change: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        parse({**BROKER, **change})
    assert "geheim" not in str(refused.value)


def test_a_broker_is_no_table_and_no_sink() -> None:
    options = parse({**BROKER, "claimStore": "sqlite:///x.db"})
    assert options.claim_timeout == 120.0
    assert "geheim" not in repr(options)
    source = LocalQueueDataSource({**BROKER, "claimStore": "sqlite:///x.db"})
    for use in (
        lambda: source.reader(source.schema()),
        lambda: source.writer(source.schema(), overwrite=False),
        lambda: source.streamWriter(source.schema(), overwrite=False),
    ):
        with pytest.raises(OptionError, match=r"option 'url' is a broker, and amqp://.* can not be"):
            use()
