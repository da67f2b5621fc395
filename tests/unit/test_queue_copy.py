"""A queue is copied to another store: nothing is lost, doubled or forgotten, however often it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueError, SQLiteQueueStore, queue_copy
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import assert_sound, drain, override, put, put_many, release, take
from localqueue.errors import QueueStoreError
from localqueue.policies import MsgpackCodec
from localqueue.queue_copy import CopyReport, copy_queue, forget_copies
from localqueue.stores.port import Changes, Committed, Edge, LeaseRequest, QueueStore, StoredMessage
from tests.unit.worker_steps import STORES, open_store

_PAIRS = [pair for pair in product(STORES, STORES) if "sqlite" in pair or pair == ("lmdb", "memory")]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=_PAIRS, ids="-".join)
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[tuple[QueueStore, QueueStore]]:
    (tmp_path / "target").mkdir()
    first = open_store(request.param[0], tmp_path, clock=clock)
    second = open_store(request.param[1], tmp_path / "target", clock=clock)
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def here(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as store:
        yield store


@pytest.fixture
def there(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as store:
        yield store


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_copy, "_PAGE", 3)


def queue(store: QueueStore, name: str = "jobs", **options: Any) -> PersistentQueue[Any]:
    return PersistentQueue(name, store=store, **options)


def test_a_queue_is_copied_while_others_put_all_the_time(here: MemoryQueueStore, tmp_path: Path) -> None:
    class Busy(SQLiteQueueStore):
        """Somebody puts each time before it commits."""

        def mint(self, count: int = 1) -> list[str]:
            ids = super().mint(count)
            if other.qsize("jobs") < 20:
                other.put_one("jobs", "x", None)
            return ids

    queue(here).put_many([0, 1])
    path = tmp_path / "busy.db"
    with Busy(path) as target, SQLiteQueueStore(path) as other:
        assert copy_queue(queue(here), queue(target)).copied == 2
        assert other.qsize("jobs") == 4, "it came too late once, and had time then"


def fill(store: QueueStore, clock: FakeClock) -> None:
    """Messages in every state that can be copied."""
    first = put(store, payload="first", headers='{"h":"1"}', run_id="r", dedupe_key="d")
    put(store, payload="second", after=(first,), run_id="r")
    clock.advance(1)
    put(store, payload=b"\x00\xff", codec="raw", priority=5)
    put(store, payload="retried", priority=9)
    for worker in ("v", "w"):
        release(store, take(store, leased_by=worker), error={"type": "E", "message": worker})
        clock.advance(1)
    put_many(store, "abc", ordering_key="k")
    put(store, payload="later", delay=60)
    put(store, payload="mortal", ttl=100)
    a, b, c = put_many(store, ("dead a", "dead b", "dead c"))
    for message_id in (c, a, b):
        override(store, message_id, "dead-letter", error={"type": "E", "message": message_id})
        clock.advance(1)
    override(store, put(store, payload="cancelled", run_id="r"), "cancel")
    put(store, payload="over", ttl=1)
    clock.advance(2)
    for message in store.lease(LeaseRequest("jobs", 1)):
        release(store, message, forgive=True)


def seen(store: QueueStore, name: str = "jobs", state: str | None = None) -> list[StoredMessage]:
    """What a queue holds, without what is different in every store."""
    return [message._replace(id="", queue="") for message in store.scan(name, state=state)]


@pytest.mark.usefixtures("small_pages")
def test_everything_but_the_ids_is_kept(stores: tuple[QueueStore, QueueStore], clock: FakeClock) -> None:
    source, target = stores
    fill(source, clock)
    report = copy_queue(queue(source), queue(target, "moved"))
    assert seen(target, "moved") == seen(source)
    for state in ("dead", "expired", "cancelled"):
        assert seen(target, "moved", state) == seen(source, state=state)
    counts = source.stats("jobs")
    assert report.copied == counts.total == target.stats("moved").total
    assert report == CopyReport(
        copied=counts.total,
        already_there=0,
        duplicates=0,
        by_state={
            state: getattr(counts, state)
            for state in ("blocked", "cancelled", "dead", "delayed", "expired", "ready", "waiting")
        },
    )
    ids = {message.payload: message.id for message in target.scan("moved")}
    assert target.upstream("moved", ids["second"]) == [ids["first"]]
    run, copied = source.run("r"), target.run("r")
    assert run is not None
    assert copied == run
    assert source.paused("jobs")
    assert not target.paused("moved")
    source.resume("jobs")
    assert drain(target, "moved") == drain(source)
    clock.advance(60)
    assert drain(target, "moved") == drain(source) == ["later"]
    assert_sound(target, ["moved"])


@pytest.mark.usefixtures("small_pages")
def test_a_second_call_copies_only_what_is_new(here: QueueStore, there: QueueStore, clock: FakeClock) -> None:
    fill(here, clock)
    total = here.stats("jobs").total
    assert copy_queue(queue(here), queue(there)).copied == total
    consumed = drain(there)
    assert consumed
    assert copy_queue(queue(here), queue(there)) == CopyReport(already_there=total)
    assert drain(there) == []
    put(here, payload="new")
    report = copy_queue(queue(here), queue(there))
    assert (report.copied, report.already_there, report.by_state) == (1, total, {"ready": 1})
    assert drain(there) == ["new"]


@pytest.mark.usefixtures("small_pages")
def test_what_is_put_during_the_copy_is_copied_too(here: QueueStore, there: QueueStore) -> None:
    put_many(here, "abcdefg")
    late = iter("xyz")

    def progress(done: int, total: int) -> None:
        for payload in late:
            put(here, payload=payload)
            break

    assert copy_queue(queue(here), queue(there), progress=progress).copied == 10
    assert sorted(drain(there)) == [*"abcdefgxyz"]


@pytest.mark.usefixtures("small_pages")
def test_progress_tells_how_far_it_is(here: QueueStore, there: QueueStore) -> None:
    put_many(here, "abcdefgh")
    told: list[tuple[int, int]] = []
    copy_queue(queue(here), queue(there), progress=lambda *numbers: told.append(numbers))
    assert told[:3] == [(3, 8), (6, 8), (8, 8)]


class Failing(MemoryQueueStore):
    """Fails at the nth commit: before it, or after it when the answer is lost."""

    def __init__(self, nth: int, done: bool, **options: Any) -> None:
        super().__init__(**options)
        self.nth = nth
        self.done = done

    def commit(self, changes: Changes) -> Committed:
        self.nth -= 1
        if self.nth == 0 and not self.done:
            raise QueueStoreError("the store went away")
        committed = super().commit(changes)
        if self.nth == 0:
            raise QueueStoreError("the answer was lost")
        return committed


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_a_copy_that_broke_off_is_taken_up_where_it_was(
    here: QueueStore, clock: FakeClock, nth: int, done: bool
) -> None:
    fill(here, clock)
    with Failing(nth, done, clock=clock) as there:
        with pytest.raises(QueueStoreError):
            copy_queue(queue(here), queue(there))
        drained = drain(there) if nth % 2 else []
        copy_queue(queue(here), queue(there))
        here.resume("jobs")
        assert sorted(map(str, drained + drain(there))) == sorted(map(str, drain(here)))
        assert seen(there, state="dead") == seen(here, state="dead")
        assert_sound(there)


def test_two_copies_at_once_copy_everything_once(here: QueueStore, there: QueueStore, small_pages: None) -> None:
    put_many(here, "abcdefgh")
    inner: list[CopyReport] = []

    class Interrupted(MemoryQueueStore):
        """Somebody else copies the same while a commit is on its way."""

        def commit(self, changes: Changes) -> Committed:
            if not inner:
                inner.append(CopyReport())
                inner[0] = copy_queue(queue(here), queue(self))
            return super().commit(changes)

    with Interrupted() as target:
        outer = copy_queue(queue(here), queue(target))
        assert (outer.copied, inner[0].copied) == (0, 8)
        assert drain(target) == [*"abcdefgh"]


def test_leased_messages_are_refused_until_they_are_done(here: QueueStore, there: QueueStore) -> None:
    put_many(here, "abc")
    held = take(here, timeout=60)
    take(here, timeout=60)
    with pytest.raises(QueueError, match="2 of its messages are leased"):
        copy_queue(queue(here), queue(there))
    assert there.stats("jobs").total == 0
    assert here.paused("jobs")
    queue(here).ack(held.id)
    with pytest.raises(QueueError, match="1 of its messages is leased"):
        copy_queue(queue(here), queue(there))


def test_a_lease_that_ran_out_is_taken_from_its_holder(here: QueueStore, there: QueueStore, clock: FakeClock) -> None:
    put_many(here, "ab")
    late = take(here, leased_by="late", timeout=5)
    clock.advance(10)
    assert copy_queue(queue(here), queue(there)).by_state == {"ready": 2}
    assert not here.ack_one("jobs", late.id, late.attempts), "it would be done here and there"
    copied = {message.payload: message for message in there.scan("jobs")}
    assert copied["a"].attempts == 1
    assert [event["type"] for event in copied["a"].history] == ["leased", "released"]


def test_a_queue_that_is_resumed_during_the_copy_is_noticed(
    here: QueueStore, there: QueueStore, small_pages: None
) -> None:
    put_many(here, "abcdef")

    def progress(done: int, total: int) -> None:
        here.resume("jobs")
        here.lease(LeaseRequest("jobs", 5))

    with pytest.raises(QueueError, match="resumed"):
        copy_queue(queue(here), queue(there), progress=progress)


@pytest.mark.usefixtures("small_pages")
def test_dependencies_that_point_forward_are_kept(here: QueueStore, there: QueueStore) -> None:
    early = put(here, payload="early")
    waiting = put(here, payload="waiting", after=(early,))
    put_many(here, "abcdefg")
    late = put(here, payload="late")
    here.commit(Changes(edges=[Edge(late, waiting)]))
    report = copy_queue(queue(here), queue(there))
    assert (report.copied, report.already_there) == (10, 0)
    ids = {message.payload: message.id for message in there.scan("jobs")}
    assert there.upstream("jobs", ids["waiting"]) == sorted((ids["early"], ids["late"]))
    delivered = drain(there)
    assert len(delivered) == 10
    assert delivered.index("late") < delivered.index("waiting")


def test_an_upstream_that_was_consumed_in_the_target_is_done(here: QueueStore, there: QueueStore) -> None:
    first = put(here, "first", payload="first")
    put(here, payload="second", after=(first,))
    copy_queue(queue(here, "first"), queue(there, "first"))
    drain(there, "first")
    copy_queue(queue(here), queue(there))
    assert drain(there) == ["second"]


def test_queues_that_wait_for_each_other_are_copied_in_turns(here: QueueStore, there: QueueStore) -> None:
    one = put(here, "a", payload="1")
    two = put(here, "b", payload="2", after=(one,))
    three = put(here, "a", payload="3", after=(two,))
    put(here, "b", payload="4", after=(three,))
    with pytest.raises(QueueError) as left:
        copy_queue(queue(here, "a"), queue(there, "a"))
    for name in (three, two, "'a'", "'b'"):
        assert name in str(left.value)
    assert seen(there, "a")[0].payload == "1"
    with pytest.raises(QueueError):
        copy_queue(queue(here, "b"), queue(there, "b"))
    copy_queue(queue(here, "a"), queue(there, "a"))
    copy_queue(queue(here, "b"), queue(there, "b"))
    assert [drain(there, name) for name in "abab"] == [["1"], ["2"], ["3"], ["4"]]


def test_a_message_that_would_wait_for_ever_is_named(here: QueueStore, there: QueueStore) -> None:
    first = put(here, "gone")
    second = put(here, after=(first,))
    here.purge("gone")
    with pytest.raises(QueueError, match="removed without being acked"):
        copy_queue(queue(here), queue(there))
    override(here, second, "cancel")
    assert copy_queue(queue(here), queue(there)).by_state == {"cancelled": 1}


def test_a_live_message_with_the_dedupe_key_stands_for_the_copy(here: QueueStore, there: QueueStore) -> None:
    first = put(here, payload="first", dedupe_key="d")
    put(here, payload="second", after=(first,))
    holder = put(there, payload="holder", dedupe_key="d")
    report = copy_queue(queue(here), queue(there))
    assert (report.copied, report.duplicates, report.by_state) == (1, 1, {"waiting": 1})
    (waiting,) = there.scan("jobs", state="waiting")
    assert there.upstream("jobs", waiting.id) == [holder]
    put(here, payload="third", after=(first,))
    copy_queue(queue(here), queue(there))
    assert drain(there)[0] == "holder"


def test_payloads_are_not_decoded_on_the_way(here: QueueStore, there: QueueStore) -> None:
    source = queue(here, codec=MsgpackCodec())
    source.put({"n": 1})
    copy_queue(queue(here), queue(there, codec=MsgpackCodec()))
    assert queue(there, codec=MsgpackCodec()).get_message().value == {"n": 1}


def test_a_queue_can_be_renamed_within_its_store(here: QueueStore) -> None:
    put_many(here, "abc")
    assert copy_queue(queue(here), queue(here, "renamed")).copied == 3
    assert drain(here, "renamed") == [*"abc"]


def test_a_queue_is_not_copied_into_itself(tmp_path: Path) -> None:
    one = open_store("sqlite", tmp_path)
    two = open_store("sqlite", tmp_path)
    put(one)
    for other in (one, two):
        with pytest.raises(ValueError, match="into itself"):
            copy_queue(queue(one), queue(other))
    assert not one.paused("jobs")
    one.close()
    two.close()


def test_a_queue_goes_into_one_queue_of_a_store(here: QueueStore, there: QueueStore) -> None:
    put(here)
    copy_queue(queue(here), queue(there, "a"))
    with pytest.raises(ValueError, match="'a'"):
        copy_queue(queue(here), queue(there, "b"))


def test_the_notes_of_a_copy_can_be_removed(here: QueueStore, there: QueueStore, small_pages: None) -> None:
    put_many(here, "abcdefg")
    put(here, "other")
    copy_queue(queue(here), queue(there))
    copy_queue(queue(here, "other"), queue(there, "other"))
    assert forget_copies(queue(there)) == 7
    assert forget_copies(queue(there)) == 0
    assert copy_queue(queue(here, "other"), queue(there, "other")).already_there == 1
    assert copy_queue(queue(here), queue(there)).copied == 7


def test_an_empty_queue_is_copied_at_once(here: QueueStore, there: QueueStore) -> None:
    assert copy_queue(queue(here), queue(there)) == CopyReport()


def test_only_queues_are_copied(here: QueueStore) -> None:
    with pytest.raises(TypeError, match="PersistentQueue"):
        copy_queue(queue(here), here)  # type: ignore[arg-type]
