"""How often a failed attempt is made again, after which errors, and how long to wait: the settings, checked once.

Plain numbers and exception classes are decided here, without Tenacity, whose strategies are taken beside them.
Importing this module does not import Tenacity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from localqueue._dataclass import dataclass, field_names
from localqueue.policies._limits import require_seconds
from localqueue.retry.options import Predicate, RetryOptions, WaitStrategy, refuse_unknown

if TYPE_CHECKING:
    from tenacity import RetryCallState

#: Names of the numbers that make up a plain wait.
WAIT_NUMBERS: Final = ("backoff", "max_delay", "jitter")

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A plain wait: `seconds`, times `backoff` with each attempt but the first, `max_delay` at most, and `jitter`.

    Jitter comes after the cap, so that messages which all wait for the cap do not come back together. Without `seconds`
    it is 2 to 10 seconds, doubling. A wait that grows without `max_delay` stops growing at a day.
    """

    seconds: float | None = None
    backoff: float | None = None
    max_delay: float | None = None
    jitter: float = 0.0

    def after(self, attempt: int) -> float:
        """How long to wait after this attempt, counted from 1."""
        if self.seconds is None:
            first, growth, least, most = 1.0, 2.0, 2.0, 10.0
        else:
            first, growth, least, most = self.seconds, 1.0, 0.0, max(self.seconds, _DAY)
        growth = growth if self.backoff is None else self.backoff
        most = most if self.max_delay is None else self.max_delay
        try:
            grown = first and first * float(growth) ** (attempt - 1)
        except OverflowError:
            grown = most
        return min(max(grown, least), most) + self._random()

    def _random(self) -> float:
        if not self.jitter:
            return 0.0
        from random import uniform

        return uniform(0.0, self.jitter)

    def __call__(self, state: RetryCallState) -> float:
        """As a strategy of Tenacity."""
        return self.after(state.attempt_number)

    def options(self) -> dict[str, Any]:
        """The options that make this wait."""
        given = {"wait" if name == "seconds" else name: getattr(self, name) for name in field_names(Wait)}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Checked settings, as `retry_settings` makes them. Without `max_tries` and `stop` there is no last attempt."""

    max_tries: int | None = None
    stop: Predicate | None = None
    wait: Wait | WaitStrategy = Wait()
    retry: tuple[type[BaseException], ...] | Predicate | None = None

    @property
    def is_plain(self) -> bool:
        """Whether numbers and classes say it all."""
        return self.stop is None and isinstance(self.wait, Wait) and not callable(self.retry)


def retry_settings(**options: Unpack[RetryOptions]) -> RetrySettings:
    """The settings that these options make. What no worker could follow is refused, with its value and the way out."""
    refuse_unknown(retry_settings, options, RetryOptions.__annotations__)
    return settings_of(options)


def settings_of(options: Mapping[str, Any], *, source: str = "") -> RetrySettings:
    """The same from a mapping, which may hold options of others. `source` says in an error where it came from."""
    max_tries, stop = options.get("max_tries"), options.get("stop")
    if max_tries is not None and stop is not None:
        raise ValueError(
            f"{source}cannot set both max_tries and stop" if source else "pass either max_tries= or stop=, not both"
        )
    if max_tries is not None and (isinstance(max_tries, bool) or not isinstance(max_tries, int) or max_tries <= 0):
        raise ValueError(f"{source}max_tries must be a positive integer, not {max_tries!r}")
    right = "a Tenacity strategy such as stop_after_delay(60), or left out for max_tries=3"
    return RetrySettings(
        max_tries=max_tries,
        stop=_strategy(f"{source}stop", stop, right),
        wait=_wait(options, source),
        retry=_retry(f"{source}retry", options.get("retry")),
    )


def override(options: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge so that an override wins, also over the other spelling of the same decision."""
    rivals: set[str] = set()
    if not overrides.keys().isdisjoint(("max_tries", "stop")):
        rivals |= {"max_tries", "stop"}
    if callable(overrides.get("wait")):
        rivals.update(WAIT_NUMBERS)
    elif not overrides.keys().isdisjoint(WAIT_NUMBERS) and callable(options.get("wait")):
        rivals.add("wait")
    return {**{name: value for name, value in options.items() if name not in rivals}, **overrides}


def _wait(options: Mapping[str, Any], source: str) -> Wait | WaitStrategy:
    wait = None
    if "wait" in options:
        wait = 0.0 if options["wait"] is None else options["wait"]
    numbers = {name: options[name] for name in WAIT_NUMBERS if options.get(name) is not None}
    if callable(wait):
        if numbers:
            raise ValueError(
                f"{source}wait is {wait!r}, which decides the whole wait, so it takes no {', '.join(numbers)}; "
                "these go with a number of seconds, such as wait=0.5"
            )
        right = "a number of seconds, or a Tenacity strategy such as wait_fixed(2)"
        return cast("WaitStrategy", _strategy(f"{source}wait", wait, right))
    if wait is not None and (isinstance(wait, bool) or not isinstance(wait, int | float)):
        raise TypeError(
            f"{source}wait must be a number of seconds, such as 0.5, or a Tenacity strategy, such as "
            f"wait_exponential(), not {wait!r}"
        )
    for name, value in {"wait": wait, **numbers}.items():
        if name != "backoff" and value is not None and require_seconds(f"{source}{name}", value) < 0:
            raise ValueError(f"{source}{name} must be 0 or more seconds, not {value!r}")
    _check_factor(f"{source}backoff", numbers.get("backoff", 1))
    return Wait(seconds=wait, **numbers)


def _check_factor(name: str, factor: Any) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        raise TypeError(f"{name} must be a number that each wait is multiplied by, such as 2, not {factor!r}")
    if not 1 <= factor < math.inf:
        raise ValueError(f"{name} must be at least 1 and finite, not {factor!r}: each wait is multiplied by it")


def _retry(name: str, retry: Any) -> tuple[type[BaseException], ...] | Predicate | None:
    if retry is None:
        return None
    kinds = retry if isinstance(retry, tuple) else (retry,)
    if all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return kinds
    if isinstance(retry, tuple):
        raise TypeError(f"{name} must be a tuple of exception classes, such as (KeyError, OSError), not {retry!r}")
    right = "an exception class, a tuple of them, or a Tenacity predicate such as retry_if_exception(check)"
    return cast("Predicate", _strategy(name, retry, right))


def _strategy(name: str, strategy: Any, right: str) -> Any:
    if isinstance(strategy, type):
        raise TypeError(f"{name} must be {right}, not the class {strategy.__name__}")
    if strategy is not None and not callable(strategy):
        raise TypeError(f"{name} must be {right}, not {strategy!r}")
    return strategy
