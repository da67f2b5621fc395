"""The service behind an address: its client, its queues by their names, and its errors as ours."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from localqueue.brokers.sqs import batch, errors
from localqueue.brokers.sqs.address import LONGEST_WAIT, SQSAddress
from localqueue.errors import QueueError, QueueStoreMissingError, QueueStoreUnavailableError

DEAD = "-dead"
_FIFO = ".fifo"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_NAME = 80
_COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")

#: What is part of every whole answer: to the driver, one that was cut off within its headers is an empty success.
_PART_OF = {
    "create_queue": "QueueUrl",
    "get_queue_attributes": "Attributes",
    "get_queue_url": "QueueUrl",
    "send_message": "MessageId",
}

T = TypeVar("T")


class Service:
    """A queue has a `name` here: that of the queue, or the same with `-dead`."""

    def __init__(self, address: SQSAddress) -> None:
        errors.load()
        self._address = address
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None
        self._urls: dict[str, str] = {}

    @property
    def client(self) -> Any:
        made = self._made
        if made is None or made[0] != os.getpid():  # the sockets of a parent are not for its child
            with self._lock:
                made = self._made
                if made is None or made[0] != os.getpid():
                    client = errors.new_client(self._address.client_options(), read_timeout=LONGEST_WAIT + 10)
                    made = self._made = os.getpid(), client
        return made[1]

    def ask(self, name: str | None, operation: str, **request: Any) -> dict[str, Any]:
        """The answer to one request about a queue."""
        answer: dict[str, Any] = self._translated(name, lambda: getattr(self.client, operation)(**request))
        if _PART_OF.get(operation, "ResponseMetadata") not in answer:
            where = self._address.shown
            raise QueueStoreUnavailableError(f"SQS at {where!r} went away while it answered {operation}", path=where)
        return answer

    def ask_batch(self, name: str, operation: str, url: str, entries: Sequence[batch.Entry]) -> list[batch.Answer]:
        """An answer for each of at most ten entries; one with a `Code` was refused."""
        return self._translated(name, lambda: batch.ask(getattr(self.client, operation), url, entries))

    def _translated(self, name: str | None, work: Callable[[], T]) -> T:
        try:
            return work()
        except QueueError:
            raise
        except Exception as error:
            if errors.is_missing(error) and name is not None:
                self._urls.pop(name, None)
            raise errors.translate(error, self._address.shown, name) from error

    def refusal(self, answer: Mapping[str, Any]) -> Exception:
        """Why an entry of a batch was refused."""
        where, code = self._address.shown, errors.short(str(answer["Code"]))
        said = f"{code}: {answer.get('Message', '')}".rstrip(": ")
        if errors.is_passing(answer):
            return QueueStoreUnavailableError(f"SQS at {where!r} is too busy ({said})", path=where)
        return errors.refusal(code, said, where)

    # queues

    def require_name(self, queue: str) -> str:
        fifo = self._address.fifo
        longest = _LONGEST_NAME - len(DEAD) - (len(_FIFO) if fifo else 0)
        if not isinstance(queue, str) or not _NAME.fullmatch(queue) or len(queue) > longest:
            raise ValueError(
                f"SQS can not have a queue {queue!r}: its name is 1 to {longest} letters, digits, '-' and '_'"
                + (f", without {_FIFO!r}, which is added" if fifo else "")
            )
        return queue

    def _full(self, name: str) -> str:
        return name + _FIFO if self._address.fifo else name

    def url_of(self, name: str) -> str:
        """The address of a queue; `QueueStoreMissingError` where there is none."""
        found = self._urls.get(name)
        if found is None:
            answer = self.ask(name, "get_queue_url", QueueName=self._full(name))
            found = self._urls[name] = str(answer["QueueUrl"])
        return found

    def make(self, name: str) -> str:
        """Looked for first: who may not make queues can use those that are there."""
        self._urls.pop(name, None)
        try:
            return self.url_of(name)
        except QueueStoreMissingError:
            attributes = {"FifoQueue": "true"} if self._address.fifo else {}
            answer = self.ask(name, "create_queue", QueueName=self._full(name), Attributes=attributes)
            return self._urls.setdefault(name, str(answer["QueueUrl"]))

    def remove(self, name: str) -> None:
        with suppress(QueueStoreMissingError):
            self.ask(name, "delete_queue", QueueUrl=self.url_of(name))
        self._urls.pop(name, None)

    def counts(self, name: str) -> tuple[int, int, int]:
        """Messages that are ready, held and delayed."""
        answer = self.ask(name, "get_queue_attributes", QueueUrl=self.url_of(name), AttributeNames=list(_COUNTS))
        ready, held, delayed = (int(answer["Attributes"].get(one, 0)) for one in _COUNTS)
        return ready, held, delayed

    def greet(self) -> None:
        """Have the service answer. That there is no such queue is an answer."""
        with suppress(QueueStoreMissingError):
            self.ask(None, "get_queue_url", QueueName="localqueue-health")

    def close(self) -> None:
        made = self._made
        if made is not None and made[0] == os.getpid():
            made[1].close()
