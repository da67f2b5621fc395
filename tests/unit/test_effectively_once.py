"""Effectively-once: what succeeded is not run again, and all that a success leaves in the store is one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, QoS, QueuePolicySet, QueueSpec, Worker, current_job, persistent_worker
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import IdTaken, LeaseLost, RecordConflict
from localqueue.idempotency import (
    IdempotencyRecord,
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    QueueIdempotencyStore,
    SQLiteIdempotencyStore,
)
from localqueue.policies import AtMostOnceDelivery, RejectingBackpressure, ReturnStoredResult
from localqueue.results import LMDBResultStore, MemoryResultStore, QueueResultStore, SQLiteResultStore
from localqueue.stores.port import Changes
from localqueue.workers.ledger import ledger_for
from tests.unit.effects import KINDS, RUNS, keyed, open_queue_store, run_in_threads

pytestmark = pytest.mark.by_turns

Run = Callable[..., list[Any]]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


@pytest.fixture(params=["memory", "sqlite", "lmdb", "other-queue-store"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    match request.param:
        case "memory":
            made: Any = MemoryIdempotencyStore()
        case "sqlite":
            made = SQLiteIdempotencyStore(tmp_path / "ledger.sqlite3")
        case "lmdb":
            made = LMDBIdempotencyStore(tmp_path / "ledger.lmdb")
        case _:
            inside = open_queue_store("memory", tmp_path)
            request.addfinalizer(inside.close)
            made = QueueIdempotencyStore(inside)
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "lmdb"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = {
        "memory": MemoryResultStore,
        "sqlite": lambda: SQLiteResultStore(tmp_path / "results.sqlite3"),
        "lmdb": lambda: LMDBResultStore(tmp_path / "results.lmdb"),
    }[request.param]()
    yield made
    made.close()


def states(settled: list[Any]) -> list[str]:
    return [one.state for one in settled]


class Calls:
    """A handler that returns what it is told and remembers its values."""

    def __init__(self, *results: Any) -> None:
        self.values: list[Any] = []
        self._results = list(results)

    def __call__(self, value: Any) -> Any:
        self.values.append(value)
        result = self._results.pop(0) if self._results else None
        if isinstance(result, BaseException):
            raise result
        return result


# the ledger in the queue's own store


def test_work_that_succeeded_is_skipped_when_its_key_comes_again(store: Any, run: Run) -> None:
    queue, handler = keyed(store), Calls()
    queue.put("a", dedupe_key="k")
    assert states(run(queue, handler)) == ["acked"]
    queue.put("again", dedupe_key="k")
    assert states(run(queue, handler)) == ["skipped"]
    assert handler.values == ["a"]
    assert queue.stats().total == 0


def test_the_record_says_what_happened(store: Any, run: Run) -> None:
    queue = keyed(store)
    message = queue.put("a", dedupe_key="k")
    run(queue, Calls())
    record = QueueIdempotencyStore(store).load("jobs:k")
    assert record is not None
    assert (record.status, record.result_key) == ("succeeded", None)
    assert record.metadata == {"queue": "jobs", "message_id": message.id}


def test_a_failure_is_recorded_and_does_not_keep_the_work_from_being_done(store: Any, run: Run) -> None:
    queue, handler = keyed(store), Calls(ValueError("no"), "yes")
    message = queue.put("a", dedupe_key="k")
    assert states(run(queue, handler)) == ["dead-lettered"]
    ledger = QueueIdempotencyStore(store)
    failed = ledger.load("jobs:k")
    assert failed is not None
    assert (failed.status, failed.metadata["last_error"]["message"]) == ("failed", "no")
    assert queue.requeue_dead(message)
    assert states(run(queue, handler)) == ["acked"]
    done = ledger.load("jobs:k")
    assert done is not None
    assert (done.status, done.first_seen_at) == ("succeeded", failed.first_seen_at)


def test_keys_belong_to_their_queue(store: Any, run: Run) -> None:
    handler = Calls()
    for name in ("jobs", "mail"):
        queue = keyed(store, name)
        queue.put(name, dedupe_key="k")
        assert states(run(queue, handler)) == ["acked"]
    assert handler.values == ["jobs", "mail"]


def test_messages_that_were_put_without_a_key_are_all_handled(store: Any, run: Run) -> None:
    plain: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    plain.put_many(["a", "b", "c"])
    handler = Calls()
    assert states(run(keyed(store), handler)) == ["acked"] * 3
    assert handler.values == ["a", "b", "c"]


@pytest.mark.parametrize("result", [{"n": 1}, None, 0, ""])
def test_a_duplicate_gets_the_stored_result(store: Any, run: Run, result: Any) -> None:
    queue, handler = keyed(store, result_policy=ReturnStoredResult()), Calls(result, "another")
    for value in "ab":
        queue.put(value, dedupe_key="k")
        (settled,) = run(queue, handler)
    assert (settled.state, settled.result, handler.values) == ("skipped", result, ["a"])


@pytest.mark.parametrize("result", [{"n": 1}, None])
def test_a_result_in_the_same_store_is_part_of_the_commit(store: Any, run: Run, result: Any) -> None:
    results = QueueResultStore(store)
    queue = keyed(store, result_policy=ReturnStoredResult(result_store=results))
    queue.put("a", dedupe_key="k")
    commits: list[Changes] = []
    with _watching(store, commits):
        run(queue, Calls(result))
    (whole,) = [changes for changes in commits if changes.settle]
    assert {write.kind for write in whole.records} == {"result", "idempotency"}
    assert results.find("dedupe:jobs:k") == (True, result)
    queue.put("b", dedupe_key="k")
    (settled,) = run(queue, Calls("another"))
    assert (settled.state, settled.result) == ("skipped", result)


def test_a_result_in_a_store_of_its_own_is_returned_to_a_duplicate(results: Any, run: Run, tmp_path: Path) -> None:
    with open_queue_store("memory", tmp_path) as store:
        queue = keyed(store, result_policy=ReturnStoredResult(result_store=results))
        queue.put("a", dedupe_key="k")
        run(queue, Calls({"n": 1}))
        assert results.load("dedupe:jobs:k") == {"n": 1}
        record = QueueIdempotencyStore(store).load("jobs:k")
        assert record is not None
        assert record.result_key == "dedupe:jobs:k"
        queue.put("b", dedupe_key="k")
        (settled,) = run(queue, Calls())
        assert settled.result == {"n": 1}


def test_a_result_that_can_not_be_kept_is_a_failure(store: Any, run: Run) -> None:
    queue = keyed(store, result_policy=ReturnStoredResult())
    queue.put("a", dedupe_key="k")
    (settled,) = run(queue, Calls({1, 2}))
    assert (settled.state, type(settled.error).__name__) == ("dead-lettered", "PayloadError")


def test_ack_result_record_and_follow_ups_are_one_commit(store: Any, run: Run) -> None:
    queue = keyed(store, idempotency_store=QueueIdempotencyStore(store), result_policy=ReturnStoredResult())
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)

    def handler(value: str) -> str:
        first = current_job().put("first", to=after)
        current_job().put("second", to=after, after=[first])
        return value

    queue.put("a", dedupe_key="k")
    commits: list[Changes] = []
    with _watching(store, commits):
        assert states(run(queue, handler)) == ["acked"]
    (whole,) = [changes for changes in commits if changes.settle]
    assert [draft.queue for draft in whole.enqueue] == ["after", "after"]
    assert [settle.action for settle in whole.settle] == ["ack"]
    assert [write.kind for write in whole.records] == ["idempotency"]
    assert after.stats().total == 2
    assert after.get_message(block=False).value == "first"


def test_a_failing_handler_stores_no_follow_up(store: Any, run: Run) -> None:
    queue = keyed(store)
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)

    def handler(value: str) -> None:
        current_job().put("x", to=after)
        raise ValueError(value)

    queue.put("a", dedupe_key="k")
    assert states(run(queue, handler)) == ["dead-lettered"]
    assert after.stats().total == 0


def test_a_follow_up_that_finds_its_queue_full_fails_the_message(store: Any, run: Run) -> None:
    queue = keyed(store)
    after: PersistentQueue[Any] = PersistentQueue("after", store=store, backpressure=RejectingBackpressure(1))
    after.put("there")
    for key in "ab":
        queue.put(key, dedupe_key=key)

    def handler(value: str) -> None:
        if value == "a":
            current_job().put("x", to=after)

    settled = {one.message.value: one for one in run(queue, handler, prefetch=2)}
    assert (settled["a"].state, settled["b"].state) == ("dead-lettered", "acked")
    assert "full" in str(settled["a"].error)
    ledger = QueueIdempotencyStore(store)
    assert [getattr(ledger.load(f"jobs:{key}"), "status", None) for key in "ab"] == ["failed", "succeeded"]


# two workers and one message


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_whose_lease_ran_out_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    with open_queue_store(kind, tmp_path, clock=clock) as store:
        queue = keyed(store, result_policy=ReturnStoredResult())
        after: PersistentQueue[Any] = PersistentQueue("after", store=store)
        inner: list[str] = []
        queue.put("a", dedupe_key="k")

        def second(value: str) -> str:
            current_job().put("second", to=after)
            return "second"

        def first(value: str) -> str:
            current_job().put("first", to=after)
            clock.advance(31)
            inner.extend(states(run_in_threads(queue, second, max_tries=3)))
            return "first"

        assert states(run_in_threads(queue, first, max_tries=3)) == ["lost"]
        assert inner == ["acked"]
        assert [message.value for message in after.get_messages(5, block=False)] == ["second"]
        record = QueueIdempotencyStore(store).load("jobs:k")
        assert record is not None
        assert record.metadata["result"] == "second"


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_after_the_lease_ran_out_does_not_undo_the_success_of_another(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    with open_queue_store(kind, tmp_path, clock=clock) as store:
        queue = keyed(store)
        queue.put("a", dedupe_key="k")
        inner: list[str] = []

        def first(value: str) -> None:
            clock.advance(31)
            inner.extend(states(run_in_threads(queue, Calls(), max_tries=3)))
            raise ValueError("too late")

        assert states(run_in_threads(queue, first, max_tries=3)) == ["lost"]
        assert inner == ["acked"]
        record = QueueIdempotencyStore(store).load("jobs:k")
        assert record is not None
        assert record.status == "succeeded"


def test_a_batch_with_one_lost_lease_settles_the_others(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_queue_store("sqlite", tmp_path, clock=clock) as store:
        queue = keyed(store)
        messages = [queue.put(value, dedupe_key=value) for value in "abc"]

        def handler(value: str) -> None:
            if value == "c":
                queue.release(messages[1].id, delay=60)  # an operator takes one of them away

        settled = {one.message.value: one.state for one in _run_batch(queue, handler)}
        assert settled == {"a": "acked", "b": "lost", "c": "acked"}
        assert queue.stats().delayed == 1


def _run_batch(queue: PersistentQueue[Any], handler: Callable[..., Any]) -> list[Any]:
    settled: list[Any] = []
    Worker(queue, handler, on_settled=settled.append, prefetch=3).run_until_empty(signals=False)
    return settled


def test_a_record_that_somebody_else_wrote_has_the_message_looked_at_afresh(tmp_path: Path) -> None:
    with open_queue_store("sqlite", tmp_path) as store:
        queue, ledger = keyed(store), QueueIdempotencyStore(store)
        queue.put("a", dedupe_key="k")

        def handler(value: str) -> None:
            ledger.save("jobs:k", IdempotencyRecord("succeeded", 1.0, 2.0))

        settled = run_in_threads(queue, handler)
        assert states(settled) == ["released", "skipped"]
        assert isinstance(settled[0].error, RecordConflict)


def test_follow_ups_keep_their_order_when_their_ids_are_minted_again(tmp_path: Path) -> None:
    with open_queue_store("sqlite", tmp_path) as store:
        queue = keyed(store)
        after: PersistentQueue[Any] = PersistentQueue("after", store=store)
        queue.put("a", dedupe_key="k")
        original, refused = store.commit, []

        def commit(changes: Changes) -> Any:
            if changes.enqueue and len(refused) < 2:
                refused.append(changes)
                raise IdTaken("taken")
            return original(changes)

        def handler(value: str) -> None:
            first = current_job().put("first", to=after)
            current_job().put("second", to=after, after=[first])

        store.commit = commit
        try:
            assert states(run_in_threads(queue, handler)) == ["acked"]
        finally:
            del store.commit
        first = after.get_message(block=False)
        assert first.value == "first"
        assert after.stats().waiting == 1
        after.ack(first)
        assert after.get_message(block=False).value == "second"


# a ledger of its own


def test_an_external_ledger_skips_what_succeeded(store: Any, ledger: Any) -> None:
    queue, handler = keyed(store, idempotency_store=ledger, result_policy=ReturnStoredResult()), Calls(None, 7)
    for value in "ab":
        queue.put(value, dedupe_key="k")
        (settled,) = run_in_threads(queue, handler)
    assert (settled.state, settled.result, handler.values) == ("skipped", None, ["a"])
    record = ledger.load("jobs:k")
    assert (record.status, record.result_key) == ("succeeded", "inline")


def test_a_key_in_progress_elsewhere_excludes(
    store: Any, ledger: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, handler = keyed(store, idempotency_store=ledger), Calls()
    begin, ends = ledger.begin, list[float]()

    def begin_behind_them(key: str, pending: IdempotencyRecord, *, now: float) -> Any:
        if not ends:
            ends.append(now + 0.3)
            ledger.save(key, IdempotencyRecord("pending", 1.0, metadata={"owner": "they", "until": ends[0]}))
        return begin(key, pending, now=now)

    monkeypatch.setattr(ledger, "begin", begin_behind_them)
    queue.put("a", dedupe_key="k")
    seen = states(run(queue, handler))
    assert (seen[0], seen[-1]) == ("released", "acked")
    assert handler.values == ["a"] and time.time() >= ends[0]


def test_a_crash_between_the_external_ledger_and_the_ack_is_found_as_a_success(store: Any, ledger: Any) -> None:
    queue, handler = keyed(store, idempotency_store=ledger), Calls()
    message = queue.put("a", dedupe_key="k")
    ledger.save("jobs:k", IdempotencyRecord("succeeded", 1.0, 2.0, None, {"message_id": message.id}))
    assert states(run_in_threads(queue, handler)) == ["skipped"]
    assert handler.values == []


def test_an_external_ledger_never_claims_a_success_whose_follow_ups_are_not_stored(store: Any) -> None:
    class Watched(MemoryIdempotencyStore):
        """Looks at the store whenever a success is written."""

        def save(self, key: str, record: IdempotencyRecord) -> None:
            if record.status == "succeeded":
                seen.append((queue.stats().total, after.stats().total))
            super().save(key, record)

    seen: list[Any] = []
    queue = keyed(store, idempotency_store=Watched())
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)
    queue.put("a", dedupe_key="k")
    run_in_threads(queue, lambda value: current_job().put("x", to=after))
    assert set(seen) == {(0, 1)}  # the worker's recovery may have copied it as well
    assert store.records("idempotency-uncopied") == []


def test_a_success_that_did_not_reach_the_external_ledger_is_copied_when_its_key_comes_again(store: Any) -> None:
    class Broken(MemoryIdempotencyStore):
        broken = True

        def save(self, key: str, record: IdempotencyRecord) -> None:
            if self.broken and record.status == "succeeded":
                raise OSError("no disk")
            super().save(key, record)

    ledger, handled = Broken(), []
    queue = keyed(store, idempotency_store=ledger)
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)

    def handler(value: str) -> None:
        handled.append(value)
        current_job().put("x", to=after)

    queue.put("a", dedupe_key="k")
    assert states(run_in_threads(queue, handler)) == ["acked"]
    ledger.broken = False
    queue.put("b", dedupe_key="k")
    assert states(run_in_threads(queue, handler)) == ["skipped"]
    assert handled == ["a"]
    record = ledger.load("jobs:k")
    assert record is not None
    assert record.status == "succeeded"
    assert store.records("idempotency-uncopied") == []


def test_an_external_ledger_that_can_not_be_written_keeps_the_message(store: Any) -> None:
    class Broken(MemoryIdempotencyStore):
        def save(self, key: str, record: IdempotencyRecord) -> None:
            if record.status == "succeeded":
                raise OSError("no disk")
            super().save(key, record)

    queue = keyed(store, idempotency_store=Broken())
    queue.put("a", dedupe_key="k")
    assert states(run_in_threads(queue, Calls())) == ["dead-lettered"]


def test_a_worker_that_lost_its_message_does_not_touch_the_mark_of_its_successor(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_queue_store("sqlite", tmp_path, clock=clock) as store:
        ledger = MemoryIdempotencyStore()
        queue = keyed(store, idempotency_store=ledger)
        queue.put("a", dedupe_key="k")

        def first(value: str) -> None:
            clock.advance(31)
            (message,) = queue.get_messages(1, block=False)  # another worker has it and begins
            other = ledger_for(queue)
            assert other is not None
            assert other.begin(message) is None
            raise ValueError("too late")

        assert states(run_in_threads(queue, first, max_tries=3)) == ["lost"]
        record = ledger.load("jobs:k")
        assert record is not None
        assert (record.status, record.metadata["owner"].rsplit(":")[-1]) == ("pending", "2")


def test_the_mark_in_an_external_ledger_is_renewed_with_the_lease(tmp_path: Path) -> None:
    class Watched(MemoryIdempotencyStore):
        def save(self, key: str, record: IdempotencyRecord) -> None:
            super().save(key, record)
            if record.status == "pending" and record.metadata["until"] > until[0]:
                until[0] = record.metadata["until"]
                saves.release()

    until, saves = [0.0], threading.Semaphore(0)
    with open_queue_store("sqlite", tmp_path, clock=FakeClock()) as store:  # by which no lease runs out
        queue = keyed(store, idempotency_store=Watched(), lease_timeout=0.3)
        queue.put("a", dedupe_key="k")

        def handler(value: str) -> None:
            for _ in range(3):
                assert saves.acquire(timeout=PATIENCE)

        assert states(run_in_threads(queue, handler)) == ["acked"]


# other deliveries, and ways to say it


def test_follow_ups_of_a_message_that_is_delivered_at_most_once_are_stored(store: Any, run: Run) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)
    queue.put("a")
    assert states(run(queue, lambda value: current_job().put("x", to=after))) == ["acked"]
    assert after.get_message(block=False).value == "x"


@pytest.mark.parametrize("how", ["policy set", "spec"])
def test_a_policy_set_and_a_spec_lead_to_a_working_worker(store: Any, run: Run, how: str) -> None:
    if how == "spec":
        spec = QueueSpec("jobs").with_qos(QoS.EFFECTIVELY_ONCE, result_policy=ReturnStoredResult())
        queue: PersistentQueue[Any] = spec.build_queue(store=store)
    else:
        chosen = QueuePolicySet.effectively_once(result_policy=ReturnStoredResult())
        queue = PersistentQueue("jobs", store=store, policy_set=chosen)
    queue.put("a", dedupe_key="k")
    run(queue, Calls("done"))
    queue.put("b", dedupe_key="k")
    (settled,) = run(queue, Calls())
    assert (settled.state, settled.result) == ("skipped", "done")


def test_the_decorated_function_says_that_its_lease_was_lost(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_queue_store("sqlite", tmp_path, clock=clock) as store:
        queue = keyed(store)
        queue.put("a", dedupe_key="k")

        @persistent_worker(queue, max_tries=1)
        def handle(value: str) -> str:
            clock.advance(31)
            inner.extend(states(run_in_threads(queue, Calls(), max_tries=3)))
            return "too late"

        inner: list[str] = []
        with pytest.raises(LeaseLost):
            handle()
        assert inner == ["acked"]


class _watching:
    """Collects the changes of every commit."""

    def __init__(self, store: Any, commits: list[Changes]) -> None:
        self._store, self._commits = store, commits

    def __enter__(self) -> None:
        original = self._store.commit

        def commit(changes: Changes) -> Any:
            self._commits.append(changes)
            return original(changes)

        self._store.commit = commit

    def __exit__(self, *_: object) -> None:
        del self._store.commit
