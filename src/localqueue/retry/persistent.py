"""What the sync and the async retryer share: settings, keys, and the decision after each attempt."""

from __future__ import annotations

import copy as copying
import inspect
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NoReturn, Self, Unpack

import tenacity
from tenacity import BaseRetrying, DoAttempt, DoSleep, RetryAction

from localqueue.errors import PersistentRetryExhausted
from localqueue.retry import default_store, plan
from localqueue.retry.call_state import PersistentCallState
from localqueue.retry.decision import Ask, Blocking, Decision, used_up, worth_retrying
from localqueue.retry.default_store import GivenStore, MadeStore, Source
from localqueue.retry.options import PersistentRetryOptions, refuse_unknown
from localqueue.retry.record import RetryRecord
from localqueue.retry.settings import Wait, override, settings_of
from localqueue.stores.keyvalue.store import now_of

# What stands in the way of an override: two spellings of one decision.
_RIVALS = {"store": "store_path", "store_path": "store", "key": "key_fn", "key_fn": "key"}
_OWN = frozenset(PersistentRetryOptions.__annotations__) - frozenset({"name", "enabled"})


class Persistent(BaseRetrying):
    """A retryer without its loop. A call takes a copy and keeps its state to itself."""

    def __init__(self, **options: Unpack[PersistentRetryOptions]) -> None:
        refuse_unknown(type(self), options, _OWN | _tenacity_settings())
        store, store_path = options.get("store"), options.get("store_path")
        if store is not None and store_path is not None:
            raise ValueError("pass either store= or store_path=, not both")
        passed_on = {name: value for name, value in options.items() if name in _tenacity_settings()}
        chosen = plan.strategies(settings_of(options))
        super().__init__(**{"reraise": True, **passed_on, **chosen._asdict()})
        self.clear_on_success = options.get("clear_on_success", True)
        self._key = options.get("key")
        self._key_fn = options.get("key_fn")
        self._source: Source | None = None
        if store is not None:
            self._source = GivenStore(store)
        elif store_path is not None:
            self._source = default_store.store_at(store_path)

    def copy(self, **changes: Unpack[PersistentRetryOptions]) -> Self:  # type: ignore[override]
        """The same retryer with other settings where they are given; it shares the attempt store."""
        settings = {name: getattr(self, _attribute(name)) for name in _tenacity_settings()}
        if isinstance(self.wait, Wait):
            del settings["wait"]
            settings |= self.wait.options()
        settings |= {"key": self._key, "key_fn": self._key_fn, "clear_on_success": self.clear_on_success}
        for name in changes:
            settings.pop(_RIVALS.get(name, ""), None)
        made = type(self)(**override(settings, changes))
        if changes.get("store") is None and changes.get("store_path") is None:
            made._source = self._source
        return made

    def get_record(self, key: str) -> RetryRecord | None:
        """What is recorded for the key, if anything."""
        return self._where().open().load(key)

    def age(self, key: str) -> float | None:
        """Seconds since the first attempt of the key, by the clock of its store; None when nothing is recorded."""
        store = self._where().open()
        record = store.load(key)
        return None if record is None else now_of(store) - record.first_attempt_at

    def reset(self, key: str) -> None:
        """Forget the attempts of the key: it has its whole budget again."""
        self._where().open().delete(key)

    def close(self) -> None:
        """Close the attempt store, if this retryer opened it by `store_path`."""
        if isinstance(self._source, MadeStore):
            self._source.close()

    def _where(self) -> Source:
        return default_store.current() if self._source is None else self._source

    def _key_of(self, fn: Callable[..., Any] | None, args: Any, kwargs: Any) -> str:
        if self._key is not None:
            key = self._key
        elif self._key_fn is not None and fn is not None:
            key = self._key_fn(fn, args, kwargs)
        else:
            raise ValueError("persistent retries require an explicit key= or key_fn=")
        if not isinstance(key, str):
            raise TypeError(f"persistent retry keys must be strings, not {key!r}")
        return key

    def _for_one_call(self) -> Self:
        """A copy whose statistics are its own. Those of the last call that began are also this object's."""
        call = copying.copy(self)
        call._local = threading.local()
        call.begin()
        self._local.statistics = call.statistics
        return call

    def _state(self, fn: Callable[..., Any] | None, args: Any, kwargs: Any) -> PersistentCallState:
        return PersistentCallState(self, fn, args, kwargs, key=self._key_of(fn, args, kwargs), source=self._where())

    def _next(self, state: PersistentCallState) -> Decision[DoAttempt | DoSleep | Callable[[], Any]]:
        """Attempt, sleep, or call what comes back to conclude. Each failed attempt is recorded before a sleep."""
        if state.outcome is None:
            if not state.resumed:
                record = yield Blocking(state.resume)
                if record.exhausted:
                    raise PersistentRetryExhausted(state.key, record.attempts)
                self.statistics["attempt_number"] = state.attempt_number
            if self.before is not None:
                yield Ask(self.before, state)
            return DoAttempt()
        outcome = state.outcome
        if not (yield from worth_retrying(self.retry, state)):
            if self.clear_on_success and not outcome.failed:
                yield Blocking(state.clear)
            return outcome.result
        record = yield Blocking(state.recount)
        if self.after is not None:
            yield Ask(self.after, state)
        stopped = (yield from used_up(self.wait, self.stop, state)) or record.exhausted
        self.statistics["delay_since_first_attempt"] = state.seconds_since_start
        yield Blocking(partial(state.save, exhausted=stopped))
        if not stopped:
            return (yield from self._before_sleep(state))
        if self.retry_error_callback is None:
            return partial(self._raise, outcome)
        answer = yield Ask(self.retry_error_callback, state)
        return lambda: answer

    def _before_sleep(self, state: PersistentCallState) -> Decision[DoSleep]:
        sleep = state.upcoming_sleep
        state.next_action = RetryAction(sleep)
        state.idle_for += sleep
        self.statistics["idle_for"] += sleep
        self.statistics["attempt_number"] = state.attempt_number + 1
        if self.before_sleep is not None:
            yield Ask(self.before_sleep, state)
        return DoSleep(sleep)

    def _raise(self, outcome: tenacity.Future) -> NoReturn:
        error = self.retry_error_cls(outcome)
        if self.reraise:
            error.reraise()
        raise error from outcome.exception()


@cache
def _tenacity_settings() -> frozenset[str]:
    """The settings that the installed Tenacity takes."""
    return frozenset(inspect.signature(tenacity.Retrying.__init__).parameters) - {"self"}


def _attribute(setting: str) -> str:
    return "_name" if setting == "name" else setting
