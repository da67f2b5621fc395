"""`persistent_worker`: one message a call, retried inside its lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tenacity import retry_if_exception_type, stop_after_attempt

from localqueue import InProcessNotification, PersistentQueue, PersistentWorkerConfig, current_job, persistent_worker
from localqueue.contracts import FakeClock
from localqueue.errors import PersistentRetryExhausted
from localqueue.idempotency import IdempotencyRecord, MemoryIdempotencyStore
from localqueue.policies import AtMostOnceDelivery, ReturnStoredResult
from localqueue.retry import MemoryAttemptStore, QueueAttemptStore, RetryRecord, SQLiteAttemptStore
from localqueue.workers import decorators
from tests.unit.effects import KINDS, keyed, open_queue_store
from tests.unit.worker_steps import eventually, is_leased_anew

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def queue(store: Any) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


class Flaky:
    """Fails with each error once, then returns."""

    def __init__(self, *errors: BaseException) -> None:
        self.calls: list[Any] = []
        self._errors = list(errors)

    def __call__(self, value: Any) -> Any:
        self.calls.append(value)
        if self._errors:
            raise self._errors.pop(0)
        return f"done {value}"


def handled(queue: PersistentQueue[Any], handler: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return persistent_worker(queue, **{"wait": 0, **options})(lambda value: handler(value))


def test_a_call_processes_one_message_and_returns_the_result(queue: PersistentQueue[Any]) -> None:
    queue.put_many([1, 2])

    @persistent_worker(queue)
    def handle(value: int, factor: int, *, plus: int) -> int:
        return value * factor + plus

    assert handle(10, plus=3) == 13
    assert handle(10, plus=3) == 23
    assert queue.stats().total == 0


def test_a_call_waits_for_a_message(queue: PersistentQueue[Any]) -> None:
    queue.put("late", delay=0.1)
    assert handled(queue, Flaky())() == "done late"


@pytest.mark.parametrize("at_worker", [True, False])
def test_a_call_waits_on_its_notification_policy(store: Any, at_worker: bool) -> None:
    policy = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
    queue.put("late", delay=0.1)
    options = {"notification_policy": policy} if at_worker else {}
    assert handled(queue, Flaky(), **options)() == "done late"


def test_failures_are_retried_inside_the_lease(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    handler = Flaky(OSError(), OSError())
    assert handled(queue, handler, max_tries=3)() == "done a"
    assert handler.calls == ["a"] * 3
    assert queue.store.records("attempt") == []


def test_follow_ups_of_a_failed_try_are_not_stored(queue: PersistentQueue[Any]) -> None:
    after: PersistentQueue[Any] = PersistentQueue("after", store=queue.store)
    handler = Flaky(OSError())

    def handle(value: Any) -> Any:
        current_job().put(len(handler.calls), to=after)
        return handler(value)

    queue.put("a")
    handled(queue, handle, max_tries=2)()
    assert [message.value for message in after.get_messages(9, block=False)] == [1]


def test_a_final_failure_is_dead_lettered_and_raised(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    with pytest.raises(OSError, match="second"):
        handled(queue, Flaky(OSError("first"), OSError("second")), max_tries=2)()
    (dead,) = queue.dead_letters()
    error = dict(dead.last_error or {})
    assert error.pop("traceback").endswith("OSError: second")
    assert error == {"type": "OSError", "module": "builtins", "message": "second"}
    assert queue.store.records("attempt") == []


@pytest.mark.parametrize(("most", "tries"), [(None, 3), (2, 2), (5, 5)])
def test_there_is_a_last_try_also_where_nobody_named_one(
    store: Any, most: int | None, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=most)
    queue.put("a")
    handler = Flaky(*[OSError("down")] * 9)
    with pytest.raises(OSError, match="down"):
        persistent_worker(queue, wait=0)(handler.__call__)()
    assert len(handler.calls) == tries
    assert len(queue.dead_letters()) == 1
    told = [record.getMessage() for record in caplog.records if record.name == "localqueue.workers"]
    assert len([one for one in told if "failed, the next is in 0 s: OSError('down')" in one]) == tries - 1
    assert "failed and was dead-lettered: OSError('down')" in told[-1]


def test_a_limit_that_was_given_is_the_limit(store: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    queue.put("a")
    assert handled(queue, Flaky(*[OSError()] * 9), stop=stop_after_attempt(10))() == "done a"


@pytest.mark.parametrize("name", ["dead_letter_on_failure", "dead_letter_on_exhaustion"])
def test_a_final_failure_is_released_when_the_config_says_so(queue: PersistentQueue[Any], name: str) -> None:
    queue.put("a")
    handle = handled(queue, Flaky(OSError(), OSError()), max_tries=2, release_delay=60, **{name: False})
    with pytest.raises(OSError):
        handle()
    stats = queue.stats()
    assert (stats.delayed, stats.dead) == (1, 0)


def test_an_error_that_is_not_to_be_retried_is_final(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    handler = Flaky(KeyError("x"))
    with pytest.raises(KeyError):
        handled(queue, handler, max_tries=5, retry=retry_if_exception_type(OSError))()
    assert handler.calls == ["a"]
    assert queue.stats().dead == 1


@pytest.mark.parametrize("error", [ImportError("x"), ModuleNotFoundError("x"), NameError("x")])
def test_a_permanent_failure_is_always_dead_lettered(queue: PersistentQueue[Any], error: BaseException) -> None:
    queue.put("a")
    with pytest.raises(type(error)):
        handled(queue, Flaky(error), max_tries=1, dead_letter_on_failure=False)()
    assert queue.stats().dead == 1


def test_a_missing_command_is_a_permanent_failure(queue: PersistentQueue[Any]) -> None:
    class Missing(RuntimeError):
        exit_code = 127

    queue.put("a")
    with pytest.raises(Missing):
        handled(queue, Flaky(Missing()), max_tries=1, dead_letter_on_failure=False)()
    assert queue.stats().dead == 1


def test_settings_come_from_the_queue_then_the_config_then_the_call(store: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, retry_defaults={"max_tries": 1, "wait": 0})
    for given, tries in (({}, 1), ({"config": PersistentWorkerConfig(max_tries=2)}, 2), ({"max_tries": 3}, 3)):
        queue.put("a")
        handler = Flaky(*[OSError()] * 9)
        with pytest.raises(OSError):
            persistent_worker(queue, **given)(lambda value, handler=handler: handler(value))()
        assert len(handler.calls) == tries


def test_the_least_interval_and_the_breaker_work_as_direct_keywords(
    queue: PersistentQueue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    clock = FakeClock(1000.0)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr(decorators, "Pace", partial(decorators.Pace, clock=clock))
    monkeypatch.setattr(decorators, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    queue.put_many(range(3))
    paced = handled(queue, Flaky(), min_interval=0.5)
    paced(), paced()
    assert pauses == [0.5]
    pauses.clear()
    broken = handled(queue, Flaky(OSError()), max_tries=1, circuit_breaker_failures=1, circuit_breaker_cooldown=0.5)
    with pytest.raises(OSError):
        broken()
    assert not pauses
    queue.put("next")
    broken()
    assert pauses == [0.5]


def test_a_permanent_failure_does_not_open_the_breaker(
    queue: PersistentQueue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("localqueue.workers.decorators.time.sleep", pauses.append)
    queue.put_many("ab")
    handle = handled(queue, Flaky(NameError()), max_tries=1, circuit_breaker_failures=1, circuit_breaker_cooldown=60)
    with pytest.raises(NameError):
        handle()
    handle()
    assert pauses == []


def test_the_worker_id_holds_the_lease_and_beats(queue: PersistentQueue[Any]) -> None:
    seen: list[Any] = []
    queue.put("a")

    def handle(value: Any) -> None:
        stats = queue.stats()
        seen.append((stats.by_worker_id, set(stats.last_seen_by_worker_id), current_job().message.leased_by))

    handled(queue, handle, worker_id="me")()
    assert seen == [({"me": 1}, {"me"}, "me")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_lease_is_renewed_while_a_retry_sleeps(kind: str, tmp_path: Path) -> None:
    clock, others = FakeClock(), list[Any]()
    with open_queue_store(kind, tmp_path, clock=clock) as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=0.2)
        message = queue.put("a")

        def sleep(seconds: float) -> None:
            for _ in range(4):
                clock.advance(0.15)
                eventually(lambda: is_leased_anew(queue, message.id, clock))
                others.extend(store.lease(queue.desk.request))

        assert handled(queue, Flaky(OSError()), max_tries=2, sleep=sleep)() == "done a"
        assert others == []


@pytest.mark.parametrize("kind", ["own", "memory", "path"])
def test_a_requeued_message_has_a_fresh_budget(queue: PersistentQueue[Any], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tries.sqlite3"
    options: dict[str, Any] = {"own": {}, "memory": {"store": MemoryAttemptStore()}, "path": {"store_path": path}}[kind]
    message = queue.put("a")
    handler = Flaky(*[OSError()] * 3)
    handle = handled(queue, handler, max_tries=2, **options)
    with pytest.raises(OSError):
        handle()
    assert queue.requeue_dead(message)
    assert handle() == "done a"
    assert len(handler.calls) == 4


@pytest.mark.parametrize("external", [False, True])
def test_a_budget_that_a_crash_left_used_up_is_fresh_after_a_requeue(
    queue: PersistentQueue[Any], external: bool, tmp_path: Path
) -> None:
    attempts: Any = SQLiteAttemptStore(tmp_path / "tries.sqlite3") if external else QueueAttemptStore(queue.store)
    options = {"store": attempts} if external else {}
    message = queue.put("a")
    attempts.save(message.id, RetryRecord(2, time.time() - 9, exhausted=True))
    handler = Flaky()
    handle = handled(queue, handler, max_tries=2, **options)
    with pytest.raises(PersistentRetryExhausted):
        handle()
    assert handler.calls == []
    assert attempts.load(message.id) is None
    attempts.save(message.id, RetryRecord(2, time.time() - 9, exhausted=True))  # a crash before it was forgotten
    assert queue.requeue_dead(message)
    assert handle() == "done a"
    attempts.close()


def test_tries_that_were_cut_off_go_on_counting(queue: PersistentQueue[Any]) -> None:
    message = queue.put("a")
    QueueAttemptStore(queue.store).save(message.id, RetryRecord(2, time.time(), exhausted=False))
    handler = Flaky(*[OSError()] * 9)
    with pytest.raises(OSError):
        handled(queue, handler, max_tries=3)()
    assert len(handler.calls) == 1


def test_a_duplicate_returns_the_stored_result(store: Any) -> None:
    queue = keyed(store, result_policy=ReturnStoredResult())
    handler = Flaky()
    handle = handled(queue, handler)
    for value in "ab":
        queue.put(value, dedupe_key="k")
        assert handle() == "done a"
    assert handler.calls == ["a"]


def test_a_key_in_progress_elsewhere_is_left_for_the_next_message(store: Any) -> None:
    ledger = MemoryIdempotencyStore()
    theirs = IdempotencyRecord("pending", 1.0, metadata={"owner": "they", "until": time.time() + 60})
    ledger.save("jobs:k", theirs)
    queue = keyed(store, idempotency_store=ledger)
    queue.put("held", dedupe_key="k")
    queue.put("free", dedupe_key="l")
    assert handled(queue, Flaky())() == "done free"
    assert ledger.load("jobs:k") == theirs


def test_a_ledger_that_can_not_be_read_gives_the_message_back(store: Any) -> None:
    class Broken(MemoryIdempotencyStore):
        def load(self, key: str) -> Any:
            raise OSError("no disk")

    queue = keyed(store, idempotency_store=Broken())
    queue.put("a", dedupe_key="k")
    with pytest.raises(OSError, match="no disk"):
        handled(queue, Flaky())()
    assert queue.stats().inflight == 0


def test_an_interrupted_call_gives_the_message_back(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    with pytest.raises(KeyboardInterrupt):
        handled(queue, Flaky(KeyboardInterrupt()), retry=retry_if_exception_type(OSError))()
    assert queue.stats().ready == 1


def test_a_message_delivered_at_most_once_is_gone_when_its_handler_fails(store: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    queue.put("a")
    with pytest.raises(OSError):
        handled(queue, Flaky(OSError()), max_tries=1)()
    assert queue.stats().total == 0


def test_a_key_for_the_tries_is_refused(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    with pytest.raises(ValueError, match="takes no key="):
        handled(queue, Flaky(), key="mine")()


def test_a_coroutine_function_is_refused(queue: PersistentQueue[Any]) -> None:
    queue.put("a")

    async def handle(value: Any) -> None: ...

    with pytest.raises(TypeError, match="persistent_async_worker"):
        persistent_worker(queue, max_tries=1)(handle)()
