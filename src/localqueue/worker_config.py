"""How a worker paces itself and what it does with a message it could not process."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, TypeVar, Unpack

from localqueue._dataclass import dataclass, field
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.retry.options import PersistentRetryOptions, RetryerOptions, RetryOptions, refuse_unknown
from localqueue.retry.settings import override, settings_of


class Unset(Enum):
    """Stands for an option that was not passed, where None or False would mean something."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = Unset.UNSET
T = TypeVar("T")


class WorkerOptions(RetryOptions, total=False):
    """The settings that every worker takes as keyword arguments, see `PersistentWorkerConfig`."""

    dead_letter_on_failure: bool
    dead_letter_on_exhaustion: bool
    release_delay: float
    min_interval: float
    circuit_breaker_failures: int
    circuit_breaker_cooldown: float


class LeaseWorkerOptions(WorkerOptions, RetryerOptions, total=False):
    """The same for a worker that retries inside the lease, with a retryer."""


@dataclass(frozen=True, slots=True, init=False)
class PersistentWorkerConfig:
    """Worker behaviour and retry settings as one value, to be shared by any number of workers.

    `dead_letter_on_failure` (or its older name `dead_letter_on_exhaustion`) decides whether a
    message whose handler finally failed is dead-lettered or released after `release_delay`
    seconds. `min_interval` is the least time between two message starts of one worker. After
    `circuit_breaker_failures` recoverable failures in a row the worker pauses for
    `circuit_breaker_cooldown` seconds. Everything else says when to try again: `max_tries`, `wait`, `backoff`,
    `max_delay`, `jitter`, `retry` and `stop`, and for workers that retry inside the lease what a retryer takes.
    A setting that no worker could follow is refused here.
    """

    dead_letter_on_failure: bool
    release_delay: float
    min_interval: float
    circuit_breaker_failures: int
    circuit_breaker_cooldown: float
    retry_kwargs: dict[str, Any] = field(hash=False)

    def __init__(
        self,
        *,
        dead_letter_on_failure: bool | Unset = UNSET,
        dead_letter_on_exhaustion: bool | Unset = UNSET,
        release_delay: float = 0.0,
        min_interval: float = 0.0,
        circuit_breaker_failures: int = 0,
        circuit_breaker_cooldown: float = 0.0,
        **retry_kwargs: Unpack[RetryerOptions],
    ) -> None:
        refuse_unknown(type(self), retry_kwargs, PersistentRetryOptions.__annotations__)
        settings_of(retry_kwargs)
        dead_letter = _either_name(dead_letter_on_failure, dead_letter_on_exhaustion)
        validate_pacing(
            release_delay=release_delay,
            min_interval=min_interval,
            circuit_breaker_failures=circuit_breaker_failures,
            circuit_breaker_cooldown=circuit_breaker_cooldown,
        )
        write = object.__setattr__
        write(self, "dead_letter_on_failure", True if dead_letter is UNSET else dead_letter)
        write(self, "release_delay", release_delay)
        write(self, "min_interval", min_interval)
        write(self, "circuit_breaker_failures", circuit_breaker_failures)
        write(self, "circuit_breaker_cooldown", circuit_breaker_cooldown)
        write(self, "retry_kwargs", retry_kwargs)

    @property
    def dead_letter_on_exhaustion(self) -> bool:
        """The older name of `dead_letter_on_failure`."""
        return self.dead_letter_on_failure

    def with_overrides(
        self,
        *,
        dead_letter_on_failure: bool | Unset = UNSET,
        dead_letter_on_exhaustion: bool | Unset = UNSET,
        release_delay: float | Unset = UNSET,
        min_interval: float | Unset = UNSET,
        circuit_breaker_failures: int | Unset = UNSET,
        circuit_breaker_cooldown: float | Unset = UNSET,
        **retry_kwargs: Unpack[RetryerOptions],
    ) -> PersistentWorkerConfig:
        """Return a copy in which what is passed here wins.

        Retry settings are merged; `stop` replaces an earlier `max_tries` and the other way round, and so do a wait
        strategy and the numbers of a plain wait.
        """
        dead_letter = _either_name(dead_letter_on_failure, dead_letter_on_exhaustion)
        return PersistentWorkerConfig(
            dead_letter_on_failure=_pick(dead_letter, self.dead_letter_on_failure),
            release_delay=_pick(release_delay, self.release_delay),
            min_interval=_pick(min_interval, self.min_interval),
            circuit_breaker_failures=_pick(circuit_breaker_failures, self.circuit_breaker_failures),
            circuit_breaker_cooldown=_pick(circuit_breaker_cooldown, self.circuit_breaker_cooldown),
            **override(self.retry_kwargs, retry_kwargs),
        )


def validate_pacing(
    *,
    release_delay: float,
    min_interval: float,
    circuit_breaker_failures: int,
    circuit_breaker_cooldown: float,
) -> None:
    """Raise for the first setting that no worker could follow."""
    require_integer("circuit_breaker_failures", circuit_breaker_failures)
    for name, value in (
        ("release_delay", release_delay),
        ("min_interval", min_interval),
        ("circuit_breaker_failures", circuit_breaker_failures),
        ("circuit_breaker_cooldown", circuit_breaker_cooldown),
    ):
        if require_seconds(name, value) < 0:
            raise ValueError(f"{name} must be greater than or equal to zero")
    if circuit_breaker_cooldown > 0 and circuit_breaker_failures == 0:
        raise ValueError("circuit breaker requires circuit_breaker_failures > 0 when circuit_breaker_cooldown is set")
    if circuit_breaker_failures > 0 and circuit_breaker_cooldown == 0:
        raise ValueError("circuit breaker requires circuit_breaker_cooldown > 0 when circuit_breaker_failures is set")


def _either_name(on_failure: bool | Unset, on_exhaustion: bool | Unset) -> bool | Unset:
    if on_failure is UNSET:
        return on_exhaustion
    if on_exhaustion is not UNSET and on_exhaustion != on_failure:
        raise ValueError("pass either dead_letter_on_failure= or dead_letter_on_exhaustion=, not conflicting values")
    return on_failure


def _pick(given: T | Unset, current: T) -> T:
    return current if isinstance(given, Unset) else given
