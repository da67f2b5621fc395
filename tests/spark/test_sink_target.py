"""What a sink keeps of a queue's promises: capacity, copies for subscribers, keys; and how little it holds for it."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from localqueue import MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.policies import PublishSubscribeRouting, StoredSubscriptions
from localqueue.spark.options import OptionError, parse
from localqueue.spark.sink import delivery, message_pages, staged_rows
from localqueue.spark.sink.delivery import Step, deliver_staged
from localqueue.spark.sink.tallies import Tally, tally
from localqueue.spark.sink.target import NoRoom, NoSubscribers, Target, target_of
from localqueue.stores.port import LeaseRequest, Limit, QueueStore
from tests.spark.test_sink import save
from tests.stores import OPENERS, Place, new_place


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    store = new_place(request.param, tmp_path).open()
    yield store
    store.close()


def rows(first: int, count: int, **options: Any) -> Any:
    values = {"value": [str(number) for number in range(first, first + count)]}
    return pa.record_batch(values | options)


def write(store: QueueStore, target: Target, *batches: Any, key: str | None = None, step: Step | None = None) -> Any:
    chunks = [chunk for one in batches for chunk in staged_rows.stage(store, "job:1", [one])]
    return deliver_staged(store, key=key, batch=0, chunks=chunks, target=target, step=step)


def values(store: QueueStore, queue: str = "jobs") -> list[int]:
    return [json.loads(message.payload) for message in store.scan(queue)]


def test_a_write_that_does_not_fit_is_refused_as_a_whole_and_says_what_would(store: QueueStore) -> None:
    target = Target(queue="jobs", limit=Limit(5))
    store.put_one("jobs", "99", None)
    with pytest.raises(NoRoom, match=r"'jobs' admits 5 ready messages and has 1: there is room for 4 of 6 rows"):
        write(store, target, rows(0, 3), rows(3, 3))
    assert values(store) == [99]
    assert write(store, target, rows(0, 2), rows(2, 2)).stored == 4
    with pytest.raises(NoRoom, match="room for 0 of 1 rows"):
        write(store, target, rows(9, 1))


def test_a_write_with_a_key_that_stops_at_a_full_queue_goes_on_when_there_is_room(store: QueueStore) -> None:
    target, steps = Target(queue="jobs", limit=Limit(3)), Step(2, 1000)
    with pytest.raises(NoRoom, match="room for 3 of 4 rows, and the first 2 are stored, and the next run goes on"):
        write(store, target, rows(0, 2), rows(2, 2), key="today", step=steps)
    assert values(store) == [0, 1]
    store.lease(LeaseRequest("jobs", consume=True))
    assert write(store, target, rows(7, 4), key="today", step=steps).stored == 4
    assert values(store) == [1, 2, 3]


def test_others_write_between_the_steps_of_a_large_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = new_place("sqlite", tmp_path)
    put = delivery.put

    def put_after_another(*given: Any, **options: Any) -> Any:
        with place.open() as other:
            other.put_one("theirs", "1", None)
        return put(*given, **options)

    monkeypatch.setattr(delivery, "put", put_after_another)
    with place.open() as store:
        keyed = [rows(n, 2, dedupe_key=[f"{n}", f"{n + 1}"], ordering_key=["a", "b"]) for n in (0, 2, 4)]
        write(store, Target(queue="jobs"), *keyed, step=Step(2, 1000))
        assert (store.stats("jobs").total, store.stats("theirs").ready) == (6, 3)


def test_a_transaction_that_holds_others_up_for_long_tells_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "_LONG", -1.0)
    with new_place("sqlite", tmp_path).open() as store:
        write(store, Target(queue="jobs"), rows(0, 3))
    assert "transaction of 3 rows held up other writers" in caplog.text
    assert "delivery=steps" in caplog.text


def test_a_write_that_has_waited_for_another_does_not_say_that_it_held_others_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [0.0]

    class Waiting(SQLiteQueueStore):
        def _write(self, *given: Any, **options: Any) -> Any:
            clock[0] += 60.0
            return super()._write(*given, **options)

    monkeypatch.setattr(delivery.time, "monotonic", lambda: clock[0])
    with Waiting(tmp_path / "jobs.db") as store:
        write(store, Target(queue="jobs"), rows(0, 3))
        assert (clock[0] >= 60.0, values(store)) == (True, [0, 1, 2])
    assert "held up" not in caplog.text


def test_duplicates_take_no_room_and_are_not_counted_as_stored(store: QueueStore) -> None:
    target = Target(queue="jobs", limit=Limit(3))
    done = write(store, target, rows(0, 4, dedupe_key=["a", "a", "b", "b"]), rows(4, 2, dedupe_key=["a", "c"]))
    assert done[1:] == (3, 3, 0) and values(store) == [0, 2, 5]


@pytest.mark.parametrize(
    ("limit", "counts", "kept", "spare"),
    [
        (Limit(2, "drop-newest"), (2, 0, 2), [0, 1], []),
        (Limit(2, "drop-oldest"), (4, 0, 0), [2, 3], []),
        (Limit(2, "overflow-queue", "spare"), (4, 0, 0), [0, 1], [2, 3]),
    ],
)
def test_what_finds_a_full_queue_is_dropped_or_goes_elsewhere(
    store: QueueStore, limit: Limit, counts: tuple[int, ...], kept: list[int], spare: list[int]
) -> None:
    done = write(store, Target(queue="jobs", limit=limit), rows(0, 3), rows(3, 1))
    assert (done[1:], values(store), values(store, "spare")) == (counts, kept, spare)


def test_copies_are_those_that_put_would_make(store: QueueStore) -> None:
    store.subscribe("news", "b")
    target = Target(queue="news", subscribers=("a",), fanout=True)
    options = {"dedupe_key": ["x", None, "x"], "ordering_key": ["o", "o", None]}
    done = write(store, target, rows(0, 3, **options))
    assert (done.stored, done.duplicates) == (4, 2)
    by_sink = {name: [(m.payload, m.dedupe_key, m.ordering_key, m.state) for m in store.scan(name)] for name in
               ("news.a", "news.b", "news")}  # fmt: skip
    for name in by_sink:
        store.purge(name)
    queue: PersistentQueue[int] = PersistentQueue(
        "news", store=store, routing_policy=PublishSubscribeRouting(), subscription_policy=StoredSubscriptions(("a",))
    )
    queue.put_many([0], dedupe_keys=["x"])
    queue.put_many([1])
    assert [one[:2] for one in by_sink["news.b"]] == [(m.payload, m.dedupe_key) for m in store.scan("news.b")]
    assert by_sink["news.a"][0][1] == "x:a" and [one[3] for one in by_sink["news.a"]] == ["ready", "blocked"]
    assert by_sink["news"] == []


def test_who_subscribes_amid_a_write_gets_all_of_it_or_nothing(store: QueueStore) -> None:
    store.subscribe("news", "a")

    class Joined:
        def __init__(self) -> None:
            self.joined = False

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def put_pages(self, *args: Any, **options: Any) -> Any:
            if not self.joined:
                self.joined = store.subscribe("news", "b")
            return store.put_pages(*args, **options)

    write(Joined(), Target(queue="news", fanout=True), rows(0, 2), rows(2, 1))  # type: ignore[arg-type]
    assert values(store, "news.a") == values(store, "news.b") == [0, 1, 2]


def test_without_subscribers_there_is_nobody_to_write_for(store: QueueStore) -> None:
    with pytest.raises(NoSubscribers, match="queue 'news' has no subscribers"):
        write(store, Target(queue="news", fanout=True), rows(0, 1))
    assert store.queues() in ([], ["news"])


def test_of_a_batch_of_any_size_one_chunk_is_in_memory(store: QueueStore, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(store, MemoryQueueStore):
        return  # its one connection is busy with the transaction: it has them all before
    alive: list[weakref.ref[Any]] = []
    most = 0
    fetch = staged_rows.fetch

    def watched(*args: Any) -> Any:
        nonlocal most
        table = fetch(*args)
        alive.append(weakref.ref(table))
        most = max(most, sum(one() is not None for one in alive))
        return table

    monkeypatch.setattr(message_pages, "fetch", watched)
    write(
        store,
        Target(queue="jobs"),
        *(rows(n * 300, 300, dedupe_key=[f"{n}-{m}" for m in range(300)]) for n in range(9)),
    )
    assert len(alive) >= 9 and most <= 2, "the one that is put, and the one that comes next"
    assert len(values(store)) == 2700


def target(**options: str) -> Target:
    return target_of(parse({"url": "sqlite:////tmp/jobs.db", "queue": "jobs", **options}))


def test_options_have_the_names_of_the_policies() -> None:
    assert target() == Target(queue="jobs")
    assert target(maxsize="5").limit == Limit(5, "reject")
    assert target(maxsize="5", overflow="overflow-queue", overflowQueue="spare").limit == Limit(
        5, "overflow-queue", "spare"
    )
    assert target(subscribers="a, b", fanout="true") == Target(queue="jobs", subscribers=("a", "b"), fanout=True)
    with pytest.raises(OptionError, match="option 'fanout' is of one queue: name it with option 'queue'"):
        target_of(parse({"url": "sqlite:////tmp/jobs.db", "fanout": "true"}))
    with pytest.raises(OptionError, match="option 'maxsize' is of one queue"):
        target_of(parse({"url": "sqlite:////tmp/jobs.db", "queue": "jobs", "maxsize": "1"}), routed=True)


def test_a_job_keeps_capacity_and_subscribers_and_tells_what_became_of_its_rows(spark: Any, tmp_path: Path) -> None:
    place: Place = new_place("sqlite", tmp_path)
    frame = spark.sql("SELECT CAST(id AS STRING) AS value, CAST(id % 4 AS STRING) AS dedupe_key FROM range(6)")
    with pytest.raises(
        Exception, match=r"queue 'jobs' admits 3 ready messages and has 0: there is room for 3 of 6 rows"
    ):
        save(frame, place, maxsize="3", tally="t")
    with place.open() as store:
        assert values(store) == [] and tally(store, "t") is None
    save(frame, place, maxsize="4", tally="t")
    save(frame, place, maxsize="4", overflow="drop-newest", tally="again")
    for way in ("atomic", "direct"):
        save(frame, place, subscribers="a,b", queue=way, delivery=way, tally=way)
    with place.open() as store:
        assert tally(store, "t") == Tally(stored=4, duplicates=2)
        assert tally(store, "again") == Tally(stored=0, duplicates=6)
        assert sorted(values(store)) == [0, 1, 2, 3]
        for way in ("atomic", "direct"):
            assert tally(store, way) == Tally(stored=8, duplicates=4)
            assert len(values(store, f"{way}.a")) == len(values(store, f"{way}.b")) == 4
    with pytest.raises(Exception, match="option 'maxsize' is of one queue"):
        save(spark.sql("SELECT '1' AS value, 'x' AS queue"), place, maxsize="4")
