"""The cursor of a stream over the journal, on every store and without Spark."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.options import OptionError, Options, parse
from localqueue.spark.source.plan import EntriesLost
from localqueue.spark.streams.follower import Follower, entry_before
from localqueue.spark.streams.subscribe import JournalRange, SubscribeReader, ranges
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from tests.servers import Postgres
from tests.stores import SHARED, Place, new_place, on_server

Open = Callable[..., Follower]


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.open() as store:
        store.enable_journal()
        yield store


def options_of(place: Place, **more: str) -> Options:
    local = place.kind in ("sqlite", "lmdb")
    url = f"{place.kind}:///{place.location}" if local else place.location
    return parse({"url": url, "namespace": place.namespace, **more})


@pytest.fixture
def follow(place: Place) -> Iterator[Open]:
    opened = []

    def open_follower(**more: str) -> Follower:
        opened.append(Follower(options_of(place, **more)))
        return opened[-1]

    yield open_follower
    for follower in opened:
        follower.close()


def put(store: Any, count: int, queue: str = "jobs") -> None:
    store.put_batch(queue, [json.dumps({"n": n}) for n in range(count)], None)


def test_a_stream_ends_where_it_is_told_to_and_never_goes_back(store: Any, follow: Open) -> None:
    put(store, 5)
    until_three = follow(endingOffsets='{"seq": 3}')
    assert until_three.latest(0, None) == 3
    assert until_three.latest(0, 2) == 2
    assert until_three.latest(3, None) == 3
    assert until_three.latest(4, None) == 4


def test_a_stream_begins_where_the_options_say(store: Any, follow: Open) -> None:
    put(store, 5)
    moment = store.events(4, 1)[0].at
    deadline = time.monotonic() + 10
    while store.now() <= moment:
        assert time.monotonic() < deadline
    between = store.now()
    put(store, 3)
    assert follow().initial() == 0
    assert follow(startingOffsets="latest").initial() == 8
    assert follow(startingOffsets='{"seq": 3}').initial() == 3
    assert entry_before(store, 0.0) == 0
    assert entry_before(store, between) == 5
    assert entry_before(store, store.now() + 100) == 8
    store.prune_events(older_than=0)
    assert follow().initial() == 8
    put(store, 1)
    assert (follow().initial(), entry_before(store, 0.0)) == (8, 8)


def test_a_batch_ends_at_the_last_entry_the_limit_or_the_pin(store: Any, follow: Open) -> None:
    put(store, 10)
    follower = follow(queue="jobs")
    assert follower.latest(0, None) == 10
    assert follower.latest(0, 4) == 4
    assert follower.latest(10, None) == 10
    follower.pin()
    put(store, 10)
    assert follower.latest(8, None) == 10
    assert follower.latest(10, None) == 10


def test_entries_that_are_no_rows_of_the_stream_start_no_batch(
    store: Any, follow: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 3)
    put(store, 5, "other")
    store.lease(LeaseRequest("jobs", 2, 30.0, consume=True))  # leased and acked: four entries, or two
    end = store.journal_span()[1]
    of_one = follow(queue="jobs", view="events")
    assert of_one.latest(3, None) == end
    messages = follow(queue="jobs")
    assert messages.latest(3, None) == 3
    put(store, 1)
    assert messages.latest(3, None) == end + 1
    assert follow(queue="jobs").latest(3, 2) == end + 2 - 1  # the limit counts from the first row
    assert follow(queue="nothing").latest(0, None) == 0
    monkeypatch.setattr("localqueue.spark.streams.follower._SKIP", 5)
    assert follow(queue="nothing").latest(0, None) == end + 1  # so much that it is not looked at again
    monkeypatch.setattr("localqueue.spark.streams.follower._LOOK", 2)
    monkeypatch.setattr("localqueue.spark.streams.follower._PAGE", 1)
    assert follow(queue="jobs").latest(3, None) == end + 1


def test_entries_that_were_pruned_unread_are_an_error_unless_loss_is_allowed(
    store: Any, follow: Open, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, 5)
    store.prune_events(older_than=0)
    put(store, 5)
    with pytest.raises(EntriesLost, match=r"entries 3 to 5 were pruned.*keep_seconds.*failOnDataLoss"):
        follow().latest(2, None)
    with pytest.raises(EntriesLost, match=r"at entry 99 and the journal ends at 10"):
        follow().latest(99, None)
    loose = follow(failOnDataLoss="false")
    assert (loose.latest(2, None), loose.first_to_read(2)) == (10, 5)
    assert loose.latest(99, None) == 99
    assert caplog.text.count("were pruned") == 1
    assert follow().latest(5, None) == 10


def test_the_backlog_and_its_age_are_reported(store: Any, follow: Open) -> None:
    put(store, 10)
    follower = follow()
    assert follower.latest(0, 4) == 4
    report = follower.report()
    assert (report["seq"], report["backlog"]) == (10, 6)
    assert 0 <= report["oldest_age_seconds"] < 60
    other = follow()
    assert other.latest(10, None) == 10
    assert other.report() == {"seq": 10, "backlog": 0, "oldest_age_seconds": 0.0}


def test_a_store_without_a_journal_is_refused_with_the_way_to_turn_it_on(store: Any, follow: Open) -> None:
    store.disable_journal()
    with pytest.raises(OptionError, match=r"store.enable_journal\(\) or `localqueue queue journal --enable`"):
        follow().initial()
    with pytest.raises(OptionError, match="is off"):
        follow().latest(0, None)


def test_the_numbers_of_entries_are_divided_as_the_options_say() -> None:
    def divided(count: int, **more: str) -> list[tuple[int, int]]:
        options = parse({"url": "sqlite:///x.db", **more})
        return [(part.after, part.until) for part in ranges(100, 100 + count, options)]

    assert divided(1) == [(100, 101)]
    assert divided(0) == []
    assert divided(9_999) == [(100, 10_099)]
    assert divided(10_000) == [(100, 5_100), (5_100, 10_100)]
    assert len(divided(1_000_000)) == 4
    assert divided(3, numPartitions="8") == [(100, 101), (101, 102), (102, 103)]
    assert len(divided(100, minPartitions="8")) == 8
    assert len(divided(100_000, numPartitions="2", minPartitions="8")) == 2


def test_ranges_together_read_each_entry_once_and_of_the_queue_only(store: Any, place: Place) -> None:
    from localqueue.spark.columns import EVENTS, MESSAGES, spark_schema

    for _ in range(3):
        put(store, 4)
        put(store, 2, "other")
    store.lease(LeaseRequest("jobs", 1, 30.0))
    end = store.journal_span()[1]
    messages = SubscribeReader(options_of(place, queue="jobs"), spark_schema(MESSAGES))
    events = SubscribeReader(options_of(place, view="events"), spark_schema(EVENTS))
    parts = [(0, 5), (5, 6), (6, 18), (18, end)]
    read = [batch for part in parts for batch in messages.read(JournalRange(*part))]
    assert [row["value"] for batch in read for row in batch.to_pylist()] == [f'{{"n": {n}}}' for n in range(4)] * 3
    assert {row["queue"] for batch in read for row in batch.to_pylist()} == {"jobs"}
    read = [batch for part in parts for batch in events.read(JournalRange(*part))]
    assert [row["seq"] for batch in read for row in batch.to_pylist()] == list(range(1, end + 1))


def test_a_range_that_is_pruned_before_its_task_reads_it_is_an_error(store: Any, place: Place) -> None:
    from localqueue.spark.columns import MESSAGES, spark_schema

    put(store, 3)
    store.prune_events(older_than=0)
    reader = SubscribeReader(options_of(place), spark_schema(MESSAGES))
    with pytest.raises(EntriesLost, match="entries from 1 on were pruned"):
        list(reader.read(JournalRange(0, 3)))
    loose = SubscribeReader(options_of(place, failOnDataLoss="false"), spark_schema(MESSAGES))
    assert list(loose.read(JournalRange(0, 3))) == []


@pytest.mark.slow
def test_the_cursor_loses_no_row_when_transactions_commit_out_of_order(postgres: Postgres) -> None:
    import psycopg

    place = on_server(postgres)
    committed: list[str] = []
    lock = threading.Lock()

    def produce(seed: int) -> None:
        dice = random.Random(seed)
        with place.open() as store, psycopg.connect(place.location) as connection:
            for _ in range(30):
                message_id = store.mint()[0]
                new = NewMessage(message_id, f"q{dice.randrange(3)}", "{}")
                store.commit_within(connection, Changes(enqueue=[new]))
                time.sleep(dice.random() / 200)  # others begin meanwhile, and some of them end sooner
                if dice.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    with lock:
                        committed.append(message_id)

    with place.open() as store:
        store.enable_journal()
        producers = [threading.Thread(target=produce, args=(seed,)) for seed in range(4)]
        for producer in producers:
            producer.start()
        follower = Follower(options_of(place))
        seen: list[str] = []
        start, last_round = 0, False
        while not last_round:
            last_round = not any(producer.is_alive() for producer in producers)
            end = follower.latest(start, None)
            seen += [entry.message_id for entry in store.events(start) if entry.seq <= end]
            start = end
        follower.close()
        for producer in producers:
            producer.join()
    assert len(seen) == len(set(seen))
    assert sorted(seen) == sorted(committed)
    assert len(committed) > 60
