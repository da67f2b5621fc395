"""What RabbitMQ or the driver said, as an error of this package."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from localqueue.errors import (
    QueueError,
    QueueStoreError,
    QueueStoreLockedError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
)

_REFUSED, _NOT_FOUND, _LOCKED, _PRECONDITION, _NOT_ALLOWED = 403, 404, 405, 406, 530
_QUOTED = re.compile(r"ClosedByBroker: \((\d+)\) ['\"]?(.*?)['\"]?$")
_LASTING = {_REFUSED, _PRECONDITION, _NOT_ALLOWED}


def load() -> Any:
    """The driver, or a `RuntimeError` that says how to install it."""
    try:
        import pika
        import pika.adapters.select_connection
        import pika.exceptions
    except ImportError as error:
        raise RuntimeError(
            'RabbitMQ support requires the optional dependency; install with `pip install "localqueue[rabbitmq]"`'
        ) from error
    return pika


class Tongue:
    """Says what happened at one server, without a secret."""

    def __init__(self, shown: str, mask: Callable[[str], str]) -> None:
        self.shown = shown
        self._mask = mask

    def translate(self, error: BaseException) -> QueueError:
        if isinstance(error, QueueError):
            return error
        code, said = _said(error)
        text = self._mask(" ".join(said.split()))
        if code == _REFUSED:
            return QueueStoreError(f"RabbitMQ at {self.shown} refuses this user: {text}", path=self.shown)
        if code == _NOT_FOUND:
            return QueueStoreMissingError(f"RabbitMQ at {self.shown} says: {text}", path=self.shown)
        if code == _LOCKED:
            return QueueStoreLockedError(f"RabbitMQ at {self.shown} says: {text}", path=self.shown)
        if code in _LASTING:
            return QueueStoreError(f"RabbitMQ at {self.shown} says: {text}", path=self.shown)
        return self.unavailable(text)

    def unavailable(self, why: str) -> QueueStoreUnavailableError:
        return QueueStoreUnavailableError(f"RabbitMQ at {self.shown} can not be reached: {why}", path=self.shown)

    def missing(self, queue: str, made_by: str) -> QueueStoreMissingError:
        return QueueStoreMissingError(
            f"there is no queue {queue!r} on RabbitMQ at {self.shown}; `ensure({made_by!r})` makes it", path=self.shown
        )


def _said(error: BaseException) -> tuple[int | None, str]:
    """The code and the words of the server, where it has said anything.

    What ends a connection while it opens, the driver takes for a refusal, and quotes. It is one if the server said so.
    """
    error = _innermost(error)
    code, text = getattr(error, "reply_code", None), getattr(error, "reply_text", None)
    if code is not None:
        return code, str(text)
    text = str(error) or type(error).__name__
    quoted = _QUOTED.search(text)
    return (None, text) if quoted is None else (int(quoted[1]), quoted[2])


def _innermost(error: BaseException) -> BaseException:
    """What the driver has wrapped, once or in lists."""
    parts = (getattr(error, "exception", None), *getattr(error, "exceptions", ()), *error.args)
    inner = [one for one in parts if isinstance(one, BaseException)]
    return _innermost(inner[-1]) if inner else error
