"""Both retryers count the attempts of a key, wherever they were made, and ask Tenacity's strategies about them."""

from __future__ import annotations

import asyncio
import functools
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tenacity import (
    RetryCallState,
    RetryError,
    TryAgain,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    wait_fixed,
    wait_incrementing,
    wait_none,
)

from localqueue.errors import QueueError
from localqueue.retry import (
    MemoryAttemptStore,
    PersistentAsyncRetrying,
    PersistentRetryExhausted,
    PersistentRetrying,
    RetryRecord,
    SQLiteAttemptStore,
    key_from_argument,
    persistent_async_retry,
    persistent_retry,
)


class Sync:
    retryer = PersistentRetrying
    decorator = staticmethod(persistent_retry)

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def run(self, answer: Any) -> Any:
        return answer

    def loop(self, retryer: Any, body: Callable[[], Any]) -> None:
        for attempt in retryer:
            with attempt:
                body()


class Async:
    retryer = PersistentAsyncRetrying
    decorator = staticmethod(persistent_async_retry)

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return fn(*args, **kwargs)

        return coroutine

    def run(self, answer: Any) -> Any:
        async def wait() -> Any:
            return await answer

        return asyncio.run(wait())

    def loop(self, retryer: Any, body: Callable[[], Any]) -> None:
        async def run() -> None:
            async for attempt in retryer:
                with attempt:
                    body()

        asyncio.run(run())


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def store() -> MemoryAttemptStore:
    return MemoryAttemptStore()


class Flaky:
    """Fails a number of times, then returns what it is given."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.calls = 0
        self._failures = failures
        self._error = ConnectionError("down") if error is None else error

    def __call__(self, value: Any = "done") -> Any:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error
        return value


def make(way: Any, store: Any, **settings: Any) -> Any:
    return way.retryer(**{"store": store, "key": "k", "wait": wait_none(), **settings})


def call(way: Any, retryer: Any, fn: Callable[..., Any], *args: Any) -> Any:
    return way.run(retryer(way.function(fn), *args))


def test_a_call_that_succeeds_leaves_no_record(way: Any, store: Any) -> None:
    fn = Flaky(2)
    assert call(way, make(way, store, max_tries=3), fn, 7) == 7
    assert fn.calls == 3
    assert store.load("k") is None


def test_the_last_error_is_raised_and_the_key_is_exhausted(way: Any, store: Any) -> None:
    before = time.time()
    with pytest.raises(ConnectionError, match="down"):
        call(way, make(way, store, max_tries=2), Flaky(9))
    record = store.load("k")
    assert (record.attempts, record.exhausted) == (2, True)
    assert before <= record.first_attempt_at <= time.time()


def test_an_exhausted_key_raises_before_the_call(way: Any, store: Any) -> None:
    retryer = make(way, store, max_tries=1)
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9))
    fn = Flaky(0)
    with pytest.raises(
        PersistentRetryExhausted, match=r"^retry budget already exhausted for key='k' after 1 attempts$"
    ):
        call(way, retryer, fn)
    assert fn.calls == 0


def test_exhaustion_is_a_queue_error_and_a_runtime_error_that_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(PersistentRetryExhausted("k", 3)))
    assert (error.key, error.attempts) == ("k", 3)
    assert isinstance(error, QueueError)
    assert isinstance(error, RuntimeError)


def test_another_retryer_goes_on_counting(way: Any, store: Any) -> None:
    store.save("k", RetryRecord(2, time.time(), False))
    fn = Flaky(9)
    with pytest.raises(ConnectionError):
        call(way, make(way, store, max_tries=4), fn)
    assert fn.calls == 2
    assert store.load("k").attempts == 4


def test_reset_gives_a_key_its_whole_budget_again(way: Any, store: Any) -> None:
    retryer = make(way, store, max_tries=1)
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9))
    assert retryer.get_record("k").exhausted
    retryer.reset("k")
    assert retryer.get_record("k") is None
    assert call(way, retryer, Flaky(0)) == "done"


def test_success_keeps_the_record_when_told_to(way: Any, store: Any) -> None:
    call(way, make(way, store, max_tries=3, clear_on_success=False), Flaky(1))
    assert store.load("k").attempts == 1


def test_an_error_that_is_not_retried_uses_no_budget(way: Any, store: Any) -> None:
    fn = Flaky(9, KeyError("no"))
    retryer = make(way, store, max_tries=2, retry=retry_if_exception_type(ConnectionError))
    for _ in range(3):
        with pytest.raises(KeyError):
            call(way, retryer, fn)
    assert fn.calls == 3
    assert store.load("k") is None


def test_an_interrupt_is_not_retried(way: Any, store: Any) -> None:
    fn = Flaky(9, SystemExit(3))
    with pytest.raises(SystemExit):
        call(way, make(way, store, max_tries=5), fn)
    assert fn.calls == 1
    assert store.load("k") is None


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
def test_an_error_that_python_gives_a_meaning_comes_out_of_a_sync_call_as_it_is(
    store: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        PersistentRetrying(store=store, key="k", max_tries=2, wait=wait_none())(Flaky(9, error()))
    assert store.load("k").attempts == 2


def test_results_can_be_retried(way: Any, store: Any) -> None:
    answers = iter([None, None, 3])
    retryer = make(way, store, max_tries=3, retry=retry_if_result(lambda value: value is None))
    assert call(way, retryer, lambda: next(answers)) == 3
    with pytest.raises(RetryError):
        call(way, retryer, lambda: None)
    assert store.load("k") == RetryRecord(3, store.load("k").first_attempt_at, True)


def test_try_again_is_always_retried(way: Any, store: Any) -> None:
    fn = Flaky(1, TryAgain())
    assert call(way, make(way, store, max_tries=2, retry=retry_if_exception_type(KeyError)), fn) == "done"
    assert fn.calls == 2


def test_without_reraise_tenacitys_own_error_comes(way: Any, store: Any) -> None:
    with pytest.raises(RetryError) as caught:
        call(way, make(way, store, max_tries=2, reraise=False), Flaky(9))
    assert isinstance(caught.value.last_attempt.exception(), ConnectionError)


def test_the_error_callback_finds_the_key_exhausted_and_gives_the_answer(way: Any, store: Any) -> None:
    seen: list[bool] = []

    def give_up(state: RetryCallState) -> str:
        seen.append(store.load("k").exhausted)
        return "instead"

    assert call(way, make(way, store, max_tries=2, retry_error_callback=give_up), Flaky(9)) == "instead"
    assert seen == [True]


def test_strategies_and_callbacks_see_the_attempts_and_the_time_of_the_key(way: Any, store: Any) -> None:
    started = time.time() - 1000
    store.save("k", RetryRecord(4, started, False))
    slept: list[float] = []
    seen: list[Any] = []

    def look(name: str) -> Callable[[RetryCallState], None]:
        return lambda state: seen.append((name, state.attempt_number, state.start_time, state.seconds_since_start))

    retryer = make(
        way,
        store,
        wait=wait_incrementing(start=0, increment=10),
        sleep=slept.append,
        stop=stop_after_attempt(7),
        **{name: look(name) for name in ("before", "after", "before_sleep")},
    )
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9))
    assert slept == [40.0, 50.0]
    each = ("before", "after", "before_sleep")
    assert [one[:3] for one in seen] == [(name, n, started) for n in (5, 6, 7) for name in each][:-1]
    assert all(since is None if name == "before" else 1000 <= since < 1060 for name, _, _, since in seen)


def test_a_deadline_counts_from_the_first_attempt_of_any_process(way: Any, store: Any) -> None:
    store.save("k", RetryRecord(1, time.time() - 61, False))
    fn = Flaky(9)
    with pytest.raises(ConnectionError):
        call(way, make(way, store, stop=stop_after_delay(60)), fn)
    assert fn.calls == 1
    assert store.load("k").exhausted


def test_a_stop_strategy_sees_the_wait_that_would_come(way: Any, store: Any) -> None:
    fn = Flaky(9)
    with pytest.raises(ConnectionError):
        call(way, make(way, store, stop=stop_before_delay(60), wait=wait_fixed(61)), fn)
    assert fn.calls == 1


def test_an_attempt_is_recorded_before_the_sleep(way: Any, store: Any) -> None:
    class Killed(BaseException):
        pass

    def sleep(seconds: float) -> None:
        raise Killed

    with pytest.raises(Killed):
        call(way, make(way, store, max_tries=3, sleep=sleep), Flaky(9))
    assert (store.load("k").attempts, store.load("k").exhausted) == (1, False)


def test_a_reset_during_a_call_is_heeded(way: Any, store: Any) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            store.delete("k")

    fn = Flaky(9)
    with pytest.raises(ConnectionError):
        call(way, make(way, store, max_tries=2, sleep=sleep), fn)
    assert fn.calls == 3


def test_a_call_ends_when_another_one_exhausted_its_key(way: Any, store: Any) -> None:
    def sleep(seconds: float) -> None:
        store.save("k", RetryRecord(5, 1.0, True))

    fn = Flaky(9)
    with pytest.raises(ConnectionError):
        call(way, make(way, store, sleep=sleep), fn)
    assert fn.calls == 2
    assert store.load("k").exhausted


def test_one_key_does_not_use_up_another(way: Any, store: Any) -> None:
    retryer = way.retryer(store=store, key_fn=lambda fn, args, kwargs: args[0], max_tries=1, wait=wait_none())
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9), "a")
    assert call(way, retryer, Flaky(0), "b") == "b"


def test_a_key_comes_before_a_key_function(way: Any, store: Any) -> None:
    retryer = make(way, store, key="fixed", key_fn=lambda fn, args, kwargs: "derived", max_tries=1)
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9))
    assert store.load("fixed") is not None
    assert store.load("derived") is None


def test_a_call_without_a_key_is_refused(way: Any, store: Any) -> None:
    retryer = way.retryer(store=store)
    with pytest.raises(ValueError, match=r"^persistent retries require an explicit key= or key_fn=$"):
        call(way, retryer, Flaky(0))


def test_a_key_that_is_not_a_string_is_refused(way: Any, store: Any) -> None:
    with pytest.raises(TypeError, match="must be strings, not 7"):
        call(way, make(way, store, key=None, key_fn=lambda fn, args, kwargs: 7), Flaky(0))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"store": MemoryAttemptStore(), "store_path": "x"}, ValueError, "pass either store= or store_path=, not both"),
        ({"max_tries": 2, "stop": stop_after_attempt(1)}, ValueError, "pass either max_tries= or stop=, not both"),
        ({"max_tries": 0}, ValueError, "max_tries must be a positive integer, not 0"),
        ({"max_tries": True}, ValueError, "max_tries must be a positive integer, not True"),
        ({"max_trys": 1}, TypeError, r".* got an unexpected keyword argument 'max_trys'; did you mean 'max_tries'\?"),
    ],
)
def test_settings_that_can_not_be_are_refused(way: Any, settings: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        way.retryer(**settings)


def test_a_copy_shares_the_store_and_keeps_what_is_not_changed(way: Any, store: Any) -> None:
    copy = make(way, store, max_tries=1, clear_on_success=False).copy(max_tries=3)
    fn = Flaky(2)
    assert call(way, copy, fn) == "done"
    assert store.load("k").attempts == 2
    assert make(way, store, max_tries=5).copy(stop=stop_after_attempt(1)).stop.max_attempt_number == 1


def test_a_copy_can_have_another_key_and_store(way: Any, store: Any) -> None:
    other = MemoryAttemptStore()
    copy = make(way, store, max_tries=1).copy(store=other, key_fn=lambda fn, args, kwargs: "derived")
    with pytest.raises(ConnectionError):
        call(way, copy, Flaky(9))
    assert store.load("k") is None
    assert other.load("derived") is not None


def test_a_decorated_function_has_its_retryer_and_its_statistics(way: Any, store: Any) -> None:
    flaky = Flaky(2)

    @way.decorator(store=store, key_fn=key_from_argument("job_id"), max_tries=3, wait=wait_none())
    @way.function
    def run(job_id: str) -> Any:
        return flaky(job_id)

    assert run.statistics == {}
    assert way.run(run("a")) == "a"
    assert run.statistics["attempt_number"] == 3
    assert run.statistics["idle_for"] == 0
    assert isinstance(run.retry, way.retryer)
    assert run.retry.statistics["attempt_number"] == 3


def test_a_decorated_function_can_be_had_with_other_settings(way: Any, store: Any) -> None:
    flaky = Flaky(9)

    @way.decorator(store=store, key="k", max_tries=9, wait=wait_none())
    @way.function
    def run() -> Any:
        return flaky()

    with pytest.raises(ConnectionError):
        way.run(run.retry_with(max_tries=2)())
    assert flaky.calls == 2
    run.retry.stop = stop_after_attempt(4)
    store.delete("k")
    with pytest.raises(ConnectionError):
        way.run(run())
    assert flaky.calls == 6


def test_a_decorated_function_keeps_its_name_and_kind(store: Any) -> None:
    @persistent_retry(store=store, key="k")
    def plain(a: int = 1) -> None:
        """Says what it does."""

    @persistent_async_retry(store=store, key="k")
    async def coroutine() -> None: ...

    assert (plain.__name__, plain.__doc__) == ("plain", "Says what it does.")
    assert asyncio.iscoroutinefunction(coroutine)
    assert not asyncio.iscoroutinefunction(plain)


def test_a_block_can_be_retried(way: Any, store: Any) -> None:
    flaky = Flaky(2)
    way.loop(make(way, store, max_tries=3), flaky)
    assert flaky.calls == 3
    assert store.load("k") is None
    with pytest.raises(ConnectionError):
        way.loop(make(way, store, max_tries=3), Flaky(9))
    with pytest.raises(PersistentRetryExhausted):
        way.loop(make(way, store, max_tries=3), Flaky(9))


def test_a_foreign_call_state_is_refused(way: Any, store: Any) -> None:
    retryer = make(way, store)
    with pytest.raises(TypeError, match="needs its own call state"):
        way.run(retryer.iter(RetryCallState(retryer, None, (), {})))


def test_attempts_are_in_the_file_that_store_path_names(way: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "attempts.sqlite3"
    retryer = way.retryer(store_path=path, key="k", max_tries=1, wait=wait_none())
    with pytest.raises(ConnectionError):
        call(way, retryer, Flaky(9))
    with SQLiteAttemptStore(path) as store:
        assert store.load("k").exhausted
    retryer.close()
    with pytest.raises(PersistentRetryExhausted):
        call(way, retryer, Flaky(0))
    retryer.close()


def test_a_coroutine_strategy_needs_the_async_retryer(store: Any) -> None:
    async def retry(state: RetryCallState) -> bool:
        return True

    with pytest.raises(TypeError, match="coroutine function"):
        PersistentRetrying(store=store, key="k", retry=retry)(Flaky(1))
