"""What a stream reader knows on PySpark 4.1, which does not tell it where the query stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.spark.columns import MESSAGES, spark_schema
from localqueue.spark.options import OptionError, parse
from localqueue.spark.streams.consume import ConsumeReader
from localqueue.spark.streams.older_spark import OlderSparkReader, for_this_spark
from localqueue.spark.streams.subscribe import SubscribeReader


class Stream:
    """A queue, and readers of it as Spark starts them: a new one for each start of the query."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        self.store = SQLiteQueueStore(folder / "jobs.db")
        self.store.enable_journal()
        self.queue = PersistentQueue("jobs", store=self.store)
        self._readers: list[Any] = []

    def start(self, mode: str = "consume", **more: str) -> Any:
        named = {"consumer": "etl"} if mode == "consume" else {}
        given = parse({"url": self.url, "queue": "jobs", "mode": mode, "maxOffsetsPerTrigger": "2", **named, **more})
        make = ConsumeReader if mode == "consume" else SubscribeReader
        self._readers.append(OlderSparkReader(make(given, spark_schema(MESSAGES))))
        return self._readers[-1]

    def rows(self, reader: Any, start: dict[str, int], end: dict[str, int]) -> list[str]:
        parts = reader.partitions(start, end)
        return [text for part in parts for batch in reader.read(part) for text in batch.column("value").to_pylist()]

    def close(self) -> None:
        for reader in self._readers:
            reader.stop()
        self.store.close()


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    found = Stream(tmp_path)
    yield found
    found.close()


def claim(number: int) -> dict[str, int]:
    return {"claim": number}


def seq(number: int) -> dict[str, int]:
    return {"seq": number}


def test_messages_are_acked_when_spark_asks_for_what_comes_after_their_batch(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    reader = stream.start()
    assert reader.latestOffset() == claim(1)
    assert reader.initialOffset() == claim(0)
    assert stream.rows(reader, claim(0), claim(1)) == ["1", "2"]
    assert stream.queue.stats().total == 3
    assert reader.latestOffset() == claim(2)
    assert stream.rows(reader, claim(1), claim(2)) == ["3"]
    assert stream.queue.stats().total > 0
    assert reader.latestOffset() == claim(2)
    assert stream.queue.stats().total == 0


def test_to_be_asked_again_without_a_batch_in_between_acks_nothing(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    reader = stream.start()
    assert [reader.latestOffset() for _ in range(3)] == [claim(1)] * 3
    assert stream.queue.stats().total == 3


def test_a_batch_that_was_not_committed_is_read_again_and_acked_only_then(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    first = stream.start()
    assert stream.rows(first, claim(0), first.latestOffset()) == ["1", "2"]
    second = stream.start()  # the first one has died
    assert second.partitions(claim(1), claim(1)) == []
    assert stream.rows(second, claim(0), claim(1)) == ["1", "2"]
    assert stream.queue.stats().total == 3
    assert second.latestOffset() == claim(2)
    assert stream.rows(second, claim(1), claim(2)) == ["3"]
    assert second.latestOffset() == claim(2)
    assert stream.queue.stats().total == 0


def test_a_batch_that_was_committed_before_the_query_died_is_acked_and_not_read_again(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    first = stream.start()
    first.partitions(claim(0), first.latestOffset())
    second = stream.start()
    assert second.partitions(claim(1), claim(1)) == []
    assert second.latestOffset() == claim(2)
    assert stream.rows(second, claim(1), claim(2)) == ["3"]
    assert stream.queue.stats().total == 1


def test_a_batch_whose_commit_was_lost_after_its_messages_were_acked_is_still_the_same(stream: Stream) -> None:
    stream.queue.put_many([1, 2])
    first = stream.start()
    first.partitions(claim(0), first.latestOffset())
    assert first.latestOffset() == claim(1)
    assert stream.queue.stats().total == 0
    second = stream.start()
    assert second.partitions(claim(1), claim(1)) == []
    assert stream.rows(second, claim(0), claim(1)) == ["1", "2"]
    assert second.latestOffset() == claim(1)


def test_a_claim_that_spark_had_not_logged_is_the_next_batch(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    stream.start().latestOffset()
    second = stream.start()
    assert second.latestOffset() == claim(1)
    assert stream.rows(second, second.initialOffset(), claim(1)) == ["1", "2"]


def test_a_subscribing_query_goes_on_from_its_checkpoint_in_batches_of_the_size_that_was_said(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    first = stream.start("subscribe")
    assert first.latestOffset() == seq(2)
    assert stream.rows(first, first.initialOffset(), seq(2)) == ["1", "2"]
    second = stream.start("subscribe")
    assert second.partitions(seq(2), seq(2)) == []
    assert second.latestOffset() == seq(3)
    assert stream.rows(second, seq(2), seq(3)) == ["3"]


def test_a_query_that_begins_with_the_latest_entry_leaves_out_none_that_comes_while_it_starts(stream: Stream) -> None:
    stream.queue.put(1)
    reader = stream.start("subscribe", startingOffsets="latest")
    end = reader.latestOffset()
    stream.queue.put(2)
    assert stream.rows(reader, reader.initialOffset(), end) == []
    assert stream.rows(reader, end, reader.latestOffset()) == ["2"]


def test_a_query_is_not_led_back_by_who_asked_before_saying_where_it_stands(stream: Stream) -> None:
    stream.queue.put_many([1, 2, 3])
    reader = stream.start("subscribe")
    assert reader.latestOffset() == seq(2)
    with pytest.raises(OptionError, match=r"triggerAvailableNowWrapper\.enabled=false"):
        reader.partitions(seq(3), seq(3))


def test_a_pyspark_that_is_too_old_for_streams_is_named(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.2")
    with pytest.raises(OptionError, match=r"need PySpark 4\.1 or newer, and this is 4\.0\.2"):
        for_this_spark(stream.start())
