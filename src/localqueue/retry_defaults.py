"""Retry settings that travel from a queue to its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Two spellings of the same decision: when to give up.
_STOP_SETTINGS = frozenset({"max_tries", "stop"})


def validate_retry_defaults(retry_defaults: Mapping[str, Any], *, source: str = "retry_defaults") -> dict[str, Any]:
    """Return the settings as a plain dict of their own, or raise for the first that is wrong, naming their source."""
    if not isinstance(retry_defaults, Mapping):
        raise TypeError(f"{source} must be a mapping")
    settings = dict(retry_defaults)
    if settings.get("max_tries") is not None and settings.get("stop") is not None:
        raise ValueError(f"{source} cannot set both max_tries and stop")
    max_tries = settings.get("max_tries")
    if max_tries is not None and (isinstance(max_tries, bool) or not isinstance(max_tries, int) or max_tries <= 0):
        raise ValueError(f"{source} max_tries must be a positive integer")
    return settings


def override_retry_settings(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge so that an override wins, also over the other spelling of when to stop."""
    kept = dict(settings)
    if not _STOP_SETTINGS.isdisjoint(overrides):
        kept = {name: value for name, value in kept.items() if name not in _STOP_SETTINGS}
    return {**kept, **overrides}
