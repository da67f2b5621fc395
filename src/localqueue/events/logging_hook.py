"""Events in the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from localqueue.events.event import (
    DEAD_LETTERED,
    DISPATCH_FAILED,
    DROPPED,
    EXPIRED,
    LEASE_EXPIRED,
    NOTIFICATION_FAILED,
    Event,
)

_WARNINGS = (DEAD_LETTERED, EXPIRED, LEASE_EXPIRED, DROPPED, NOTIFICATION_FAILED, DISPATCH_FAILED)


class LoggingHook:
    """Logs each event as one line, with its fields as `extra`: `record.event`, `record.queue`, `record.message_id`...

    Routine events have `level`; those that tell of a loss or a failure have at least WARNING. `levels` sets the level
    of single types, and None leaves them out.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        level: int = logging.INFO,
        *,
        levels: Mapping[str, int | None] | None = None,
    ) -> None:
        self._logger = logging.getLogger("localqueue") if logger is None else logger
        self._level = level
        self._levels: dict[str, int | None] = dict.fromkeys(_WARNINGS, max(level, logging.WARNING))
        self._levels.update(levels or {})

    def __call__(self, event: Event) -> None:
        level = self._levels.get(event.type, self._level)
        if level is None or not self._logger.isEnabledFor(level):
            return
        fields = {
            "event": event.type,
            "queue": event.queue,
            "at": event.at,
            "message_id": event.message_id,
            "attempt": event.attempt,
            "worker": event.worker,
            "error": event.error,
            "data": dict(event.data),
        }
        self._logger.log(level, "%s", _line(event), extra=fields)


def _line(event: Event) -> str:
    parts = [event.type, f"queue={event.queue}"]
    parts += [
        f"{name}={value}"
        for name, value in (("message", event.message_id), ("attempt", event.attempt), ("worker", event.worker))
        if value is not None
    ]
    if event.error is not None:
        parts.append(f"error={json.dumps(dict(event.error), default=str)}")
    return " ".join(parts)
