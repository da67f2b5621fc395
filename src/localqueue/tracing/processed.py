"""The spans of handlers that have ended, until their messages are settled."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

_MOST = 10_000  # what is never settled, because its lease was lost, must not stay for ever


class Processed:
    """Remembers the span of a delivery. The oldest is forgotten first."""

    def __init__(self) -> None:
        self._spans: OrderedDict[tuple[str, int], SpanContext] = OrderedDict()

    def add(self, message: Any, span: SpanContext) -> None:
        self._spans[_delivery(message)] = span
        if len(self._spans) > _MOST:
            self._spans.popitem(last=False)

    def take(self, message: Any) -> SpanContext | None:
        """The span in which a message was processed, once; a bare id is of no delivery."""
        return self._spans.pop(_delivery(message), None)


def _delivery(message: Any) -> tuple[str, int]:
    return getattr(message, "id", message), getattr(message, "attempts", 0)
