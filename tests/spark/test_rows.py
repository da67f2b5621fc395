"""Messages, journal entries and counts as Arrow batches."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localqueue.events.journal import JournalEvent
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.policies.codec import MsgpackCodec
from localqueue.spark.columns import VIEWS, arrow_schema, known_columns, spark_schema
from localqueue.spark.source.finish import ids_of, moments
from localqueue.spark.source.rows import enqueued_batch, event_batch, message_batch, run_batch, stats_batch
from localqueue.spark.source.runs import RunRow
from localqueue.spark.source.values import micros, value_text
from localqueue.stores.port import StoredMessage
from tests.spark.contents import ERROR

STAMP = pa.timestamp("us", tz="UTC")


def columns(view: str, *names: str) -> pa.Schema:
    known = known_columns(view)
    return arrow_schema(spark_schema({name: known[name] for name in names or VIEWS[view]}))


def message(**changed: object) -> StoredMessage:
    plain = StoredMessage("a" * 32, "jobs", "ready", '{"n":1}', None, 0, 0, 1.5, 2.5)
    return plain._replace(**changed)


def test_a_message_becomes_a_row_of_the_default_columns() -> None:
    full = message(
        headers='{"h":"1"}',
        last_error=ERROR | {"note": "x"},
        failed_at=3.0,
        leased_until=4.25,
        leased_by="w",
        run_id="r",
    )
    (row,) = message_batch([full], columns("messages")).to_pylist()
    assert row == {
        "id": "a" * 32,
        "queue": "jobs",
        "state": "ready",
        "value": '{"n":1}',
        "headers": [("h", "1")],
        "attempts": 0,
        "priority": 0,
        "dedupe_key": None,
        "ordering_key": None,
        "run_id": "r",
        "created_at": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "available_at": datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC),
        "leased_until": datetime(1970, 1, 1, 0, 0, 4, 250_000, tzinfo=UTC),
        "leased_by": "w",
        "last_error": ERROR,
        "failed_at": datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
    }


def test_only_the_columns_of_the_schema_are_made_and_in_its_order() -> None:
    batch = message_batch([message(payload=b"\x01", codec="pickle")], columns("messages", "codec", "payload", "value"))
    assert batch.to_pylist() == [{"codec": "pickle", "payload": b"\x01", "value": None}]


def test_no_rows_make_a_batch_of_the_same_types() -> None:
    for view in ("messages", "events"):
        make = message_batch if view == "messages" else event_batch
        assert make([], columns(view)).schema == columns(view)


@pytest.mark.parametrize(
    ("payload", "codec", "text"),
    [
        ('{"a": 1}', None, '{"a": 1}'),
        (b'"\xc3\xa9"', None, '"é"'),
        (b"\xff", None, None),
        ("[]", "json", "[]"),
        (MsgpackCodec().encode({"b": b"\x00\xff", 1: math.inf}), "msgpack", '{"b":"AP8=","1":"Infinity"}'),
        (b"\xc1", "msgpack", None),
        (b"anything", "pickle", None),
        (None, None, None),
    ],
)
def test_a_value_is_the_payload_as_json_text(payload: str | bytes | None, codec: str | None, text: str | None) -> None:
    assert value_text(payload, codec) == text


@given(st.lists(st.one_of(st.none(), st.floats(-8e9, 8e9), st.floats(1.7e9, 1.9e9)), max_size=8))
def test_times_are_rounded_alike_one_by_one_and_by_arrays(seconds: list[float | None]) -> None:
    expected = pa.array([micros(one) for one in seconds], STAMP)
    assert moments(pa.array(seconds, pa.float64()), STAMP).equals(expected)


def test_a_time_that_never_comes_is_the_last_one_spark_can_show() -> None:
    assert moments(pa.array([math.inf, 1.0, None]), STAMP)[0].as_py().year == 9999
    assert moments(pa.array([math.inf, 1.0, None]), STAMP).null_count == 1


@given(st.lists(st.integers(1, 2**63 - 1), max_size=5), st.integers(0, 2**61).map(lambda n: 2 * n + 1))
def test_ids_are_computed_from_keys_as_the_mint_makes_them(keys: list[int], secret: int) -> None:
    assert ids_of(pa.array(keys, pa.int64()), secret).to_pylist() == [Mint(secret).id_of(key) for key in keys]


def enqueued(**options: object) -> JournalEvent:
    return JournalEvent(7, 10.0, "enqueued", "jobs", "b" * 32, payload='{"n":1}', options=options or None)


def test_an_entry_of_the_journal_shows_the_options_of_an_enqueued_message() -> None:
    plain, full, leased = event_batch(
        [
            enqueued(),
            enqueued(priority=3, dedupe_key="d", headers={"h": "1"}, run_id="r", delay=5.0),
            JournalEvent(8, 11.0, "leased", "jobs", "b" * 32, 1, "w"),
        ],
        columns("events"),
    ).to_pylist()
    assert (plain["priority"], plain["headers"], plain["value"]) == (0, None, '{"n":1}')
    assert (full["priority"], full["headers"], full["dedupe_key"], full["run_id"]) == (3, [("h", "1")], "d", "r")
    assert (leased["priority"], leased["value"], leased["attempt"], leased["worker"]) == (None, None, 1, "w")


def test_enqueued_entries_are_the_messages_as_they_were_put() -> None:
    batch = enqueued_batch(
        [enqueued(delay=5.0, headers={"h": "1"}), JournalEvent(8, 11.0, "acked", "jobs", "c" * 32), enqueued()],
        columns("messages"),
    )
    delayed, plain = batch.to_pylist()
    assert (delayed["state"], delayed["headers"]) == ("delayed", [("h", "1")])
    assert delayed["available_at"] == datetime(1970, 1, 1, 0, 0, 15, tzinfo=UTC)
    assert (plain["state"], plain["attempts"], plain["available_at"]) == ("ready", 0, plain["created_at"])


def test_runs_and_counts_become_rows() -> None:
    plain = RunRow(run_id="r", counts=RunStats("r", total=3, done=3))
    (run,) = run_batch([plain], columns("runs")).to_pylist()
    assert (run["run_id"], run["state"], run["total"], run["workflow"], run["step"]) == (
        "r",
        "succeeded",
        3,
        None,
        None,
    )
    (stats,) = stats_batch(
        [("jobs", QueueStats(ready=2, total=2))], columns("stats", "queue", "ready", "paused")
    ).to_pylist()
    assert stats == {"queue": "jobs", "ready": 2, "paused": False}
