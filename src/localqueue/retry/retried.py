"""What a decorated function looks like to its callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack

if TYPE_CHECKING:
    from localqueue.retry.options import PersistentRetryOptions
    from localqueue.retry.persistent import Persistent

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Retried(Protocol[P, R_co]):
    """A function that is called again until it succeeds, or its key has no tries left."""

    retry: Persistent
    statistics: dict[str, Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., R_co]:
        """It may be a method."""

    def retry_with(self, **changes: Unpack[PersistentRetryOptions]) -> Retried[P, R_co]:
        """The same function with other settings."""
