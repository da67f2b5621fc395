"""What RabbitMQ or the driver said, as an error of this package."""

from __future__ import annotations

from typing import Any

from localqueue.errors import (
    QueueError,
    QueueStoreError,
    QueueStoreLockedError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
)

_REFUSED, _NOT_FOUND, _LOCKED, _PRECONDITION, _NOT_ALLOWED = 403, 404, 405, 406, 530
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

    def __init__(self, shown: str, mask: Any) -> None:
        self.shown = shown
        self._mask = mask

    def translate(self, error: BaseException) -> QueueError:
        if isinstance(error, QueueError):
            return error
        told = _told(error)
        code, text = getattr(told, "reply_code", None), self._mask(" ".join(_text_of(told).split()))
        if code == _REFUSED or isinstance(told, load().exceptions.AuthenticationError):
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


def _told(error: BaseException) -> BaseException:
    """What is behind a guess of the driver, which takes a connection that was cut early for a refusal."""
    inner = next((one for one in error.args if isinstance(one, BaseException)), None)
    return error if inner is None else _told(inner)


def _text_of(error: BaseException) -> str:
    return str(getattr(error, "reply_text", "") or error or type(error).__name__)
