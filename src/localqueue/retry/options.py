"""The keyword arguments that say when to try again: their names and types, written once for all who take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

if TYPE_CHECKING:
    import os

    from tenacity import RetryCallState, RetryError

    from localqueue.retry.keys import KeyFunction
    from localqueue.retry.record import AttemptStore

#: What Tenacity calls a strategy: it looks at the state of a call. Only an async retryer can await its answer.
WaitStrategy: TypeAlias = "Callable[[RetryCallState], float | Awaitable[float]]"
Predicate: TypeAlias = "Callable[[RetryCallState], bool | Awaitable[bool]]"


class RetryOptions(TypedDict, total=False):
    """When to try again. Numbers are seconds.

    `max_tries` attempts are made, or until `stop` says so. `wait` is the time between two of them, a number or a
    Tenacity strategy. A number grows by the factor `backoff` with each attempt, up to `max_delay`; `jitter` is how much
    is added at random. Without `wait` it is 2 to 10 seconds, growing; None and 0 are no wait. `retry` is an exception
    class, a tuple of them, or a Tenacity predicate: other errors are not tried again.
    """

    max_tries: int | None
    stop: Predicate | None
    wait: float | WaitStrategy | None
    backoff: float | None
    max_delay: float | None
    jitter: float | None
    retry: type[BaseException] | tuple[type[BaseException], ...] | Predicate | None


class RetryerOptions(RetryOptions, total=False):
    """What a retryer takes beside: where it counts the attempts, and the callbacks of Tenacity."""

    store: AttemptStore | None
    store_path: str | os.PathLike[str] | None
    clear_on_success: bool
    sleep: Callable[[float], object]
    before: Callable[[RetryCallState], object]
    after: Callable[[RetryCallState], object]
    before_sleep: Callable[[RetryCallState], object] | None
    reraise: bool
    retry_error_cls: type[RetryError]
    retry_error_callback: Callable[[RetryCallState], Any] | None
    name: str | None
    enabled: bool


class PersistentRetryOptions(RetryerOptions, total=False):
    """What `persistent_retry` and its relatives take: one of `key` and `key_fn` is needed."""

    key: str | None
    key_fn: KeyFunction | None


def refuse_unknown(taker: Callable[..., Any], given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first name that `taker` does not know, with the one that was probably meant."""
    name = next((name for name in given if name not in known), None)
    if name is not None:
        import inspect

        named = [one.name for one in inspect.signature(taker).parameters.values() if one.kind is not one.VAR_KEYWORD]
        hint = meant(name, {*known, *named})
        raise TypeError(f"{taker.__name__}() got an unexpected keyword argument {name!r}; {hint}")


def meant(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that nobody knows."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
