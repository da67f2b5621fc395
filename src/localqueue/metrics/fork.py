"""Telemetry of processes that are forked from this one, as those of workers are."""

from __future__ import annotations

from typing import Any, Protocol

_LONGEST_MS = 5_000


class Flushes(Protocol):
    def flush(self) -> None: ...


def flush_in_children(owner: Flushes) -> None:
    """Have forked processes flush before they end: they run none of the exit handlers of a provider."""
    from multiprocessing import util

    util.register_after_fork(owner, _flush_at_end)


def flush_provider(provider: Any) -> None:
    """Export what a provider holds back, where it can be asked to."""
    flush = getattr(provider, "force_flush", None)
    if flush is not None:
        flush(_LONGEST_MS)


def _flush_at_end(owner: Flushes) -> None:
    from multiprocessing import util

    util.Finalize(None, owner.flush, exitpriority=0)
