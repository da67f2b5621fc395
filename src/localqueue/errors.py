"""Every exception localqueue raises on its own account.

All of them are `QueueError`. Those that a program written for the standard library would catch by another
name (`queue.Full`, `ValueError`, `RuntimeError`) are also that, so existing `except` clauses keep working.
"""

from __future__ import annotations

from queue import Full
from typing import Any


class QueueError(Exception):
    """The root of all localqueue errors."""


class PayloadError(QueueError, ValueError):
    """A value that the codec can not carry without changing it, or bytes that it can not read back."""


class IncompatiblePolicies(QueueError, ValueError):
    """A combination of policies that would promise something the queue can not keep."""


class UnsupportedByBroker(IncompatiblePolicies):
    """A broker was asked for something that its capabilities say it can not do. Nothing was sent or changed."""


class QueueFull(QueueError, Full):
    """No capacity; nothing of the rejected commit was stored."""

    def __init__(self, queue: str, maxsize: int) -> None:
        super().__init__(f"queue {queue!r} is full: it admits {maxsize} ready messages")
        self.queue = queue
        self.maxsize = maxsize

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.maxsize)


class LeaseLost(QueueError):
    """An atomic commit was rejected whole because one of its leases is no longer current."""

    def __init__(self, queue: str, message_id: str, token: int | None) -> None:
        super().__init__(
            f"message {message_id} of queue {queue!r} is no longer leased with token {token}; "
            "nothing was changed, another consumer may be working on it"
        )
        self.queue = queue
        self.message_id = message_id
        self.token = token

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.message_id, self.token)


class UnknownMessage(QueueError, ValueError):
    """A message id that this namespace never handed out, or whose message was purged or pruned."""


class NotWaiting(QueueError, ValueError):
    """A dependency was added to a message that has stopped waiting."""


class CircularDependency(QueueError, ValueError):
    """Messages would wait for each other, so that none of them could ever be delivered."""


class RunCancelled(QueueError, ValueError):
    """A message was put into a run that has been cancelled."""


class DedupeKeyInUse(QueueError, ValueError):
    """A dead letter can not return: a live message holds its dedupe key."""


class RecordConflict(QueueError):
    """A record was not in the version the commit expected; the commit was rejected whole."""


class ScheduleExists(QueueError, ValueError):
    """A schedule was added under the name of another one that has other settings."""


class SubscriptionsChanged(QueueError):
    """The subscribers of a topic changed between reading them and publishing."""


class IdTaken(QueueError):
    """A freshly minted message id is in use; the caller mints another and tries again."""


class NotificationFailed(QueueError, RuntimeError):
    """Other processes could not be told of a message. It is stored, and found by those who look by themselves."""


class QueueStoreError(QueueError, RuntimeError):
    """The store could not do what was asked. `path` names it where it has one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class QueueStoreLockedError(QueueStoreError):
    """The store is locked by another process."""


class QueueStoreUnavailableError(QueueStoreError):
    """The server of the store can not be reached, or went away during a call.

    What the call asked for happened either whole or not at all; which of the two is not known when the connection
    was lost while the answer was awaited.
    """


class QueueStoreFullError(QueueStoreError):
    """The disk or the configured size is exhausted; the change was rolled back."""


class QueueStoreReadOnlyError(QueueStoreError):
    """The store can be read but not written."""


class QueueStoreMissingError(QueueStoreError):
    """A store was opened to look, and there is none."""


class QueueStoreCorruptError(QueueStoreError):
    """The file is damaged or is not a database."""


class QueueStoreVersionError(QueueStoreError, ValueError):
    """The file belongs to a newer release or to another program."""


class QueueStoreClosedError(QueueStoreError):
    """The store was closed before this call."""


class AttemptStoreLockedError(QueueStoreLockedError):
    """The attempt store is locked by another process."""


class IdempotencyStoreLockedError(QueueStoreLockedError):
    """The idempotency store is locked by another process."""


class ResultStoreLockedError(QueueStoreLockedError):
    """The result store is locked by another process."""


class JobFailed(QueueError):
    """The message whose result was waited for has failed for good: `error` says why, and its `traceback` where."""

    def __init__(self, queue: str, message_id: str, error: dict[str, Any] | None = None) -> None:
        self.queue = queue
        self.message_id = message_id
        self.error: dict[str, Any] = error or {}
        kind, text = self.error.get("type"), self.error.get("message")
        why = ": ".join(str(part) for part in (kind, text) if part) or "no error was given"
        said = f"message {message_id} of queue {queue!r} failed: {why}"
        super().__init__(said if self.traceback is None else f"{said}\n\n{self.traceback}")

    @property
    def traceback(self) -> str | None:
        """Where the handler failed, as text."""
        text = self.error.get("traceback")
        return text if isinstance(text, str) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.message_id, self.error)


class JobCancelled(QueueError):
    """The message was cancelled. In a handler: it was cancelled, or its lease was lost, so its result is not wanted."""

    def __init__(self, queue: str, message_id: str) -> None:
        super().__init__(f"message {message_id} of queue {queue!r} was cancelled")
        self.queue = queue
        self.message_id = message_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.message_id)


class JobExpired(QueueError):
    """The time to live of the message ended before it was done."""

    def __init__(self, queue: str, message_id: str) -> None:
        super().__init__(f"message {message_id} of queue {queue!r} was not done before its time to live ended")
        self.queue = queue
        self.message_id = message_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.message_id)


class ResultMissing(QueueError, LookupError):
    """Nothing is known of the message: it is gone, or never was, and no result of it is kept."""


class ResultTimeout(QueueError, TimeoutError):
    """The message was not done in the time that its result was waited for; it goes on."""

    def __init__(self, queue: str, message_id: str, timeout: float) -> None:
        super().__init__(f"message {message_id} of queue {queue!r} was not done within {timeout} seconds")
        self.queue = queue
        self.message_id = message_id
        self.timeout = timeout

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.queue, self.message_id, self.timeout)


class PersistentRetryExhausted(QueueError, RuntimeError):
    """The retry budget of a key was used up by earlier calls; the function was not called."""

    def __init__(self, key: str, attempts: int) -> None:
        super().__init__(f"retry budget already exhausted for key={key!r} after {attempts} attempts")
        self.key = key
        self.attempts = attempts

    def __reduce__(self) -> tuple[type[PersistentRetryExhausted], tuple[str, int]]:
        return type(self), (self.key, self.attempts)
