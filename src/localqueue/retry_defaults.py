"""Retry settings that travel from a queue to its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localqueue.retry.options import RetryerOptions, meant
from localqueue.retry.settings import settings_of


def validate_retry_defaults(retry_defaults: Mapping[str, Any], *, source: str = "retry_defaults") -> dict[str, Any]:
    """Return the settings as a plain dict of their own, or raise for the first that is wrong, naming their source."""
    if not isinstance(retry_defaults, Mapping):
        raise TypeError(f"{source} must be a mapping")
    for name in retry_defaults:
        if name not in RetryerOptions.__annotations__:
            raise TypeError(f"{source} has no setting {name!r}; {meant(name, RetryerOptions.__annotations__)}")
    settings_of(retry_defaults, source=f"{source} ")
    return dict(retry_defaults)
