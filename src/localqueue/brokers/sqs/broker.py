"""`SQSBroker`: messages in queues of Amazon SQS, or of an emulator of its API."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from localqueue.brokers import envelope
from localqueue.brokers.base import BrokerBase
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.port import NO_HEADERS, BrokerStats, Delivery, Health, Outgoing
from localqueue.brokers.sqs import batch, errors, letter
from localqueue.brokers.sqs.address import read
from localqueue.brokers.sqs.poll import Poll
from localqueue.brokers.sqs.service import DEAD, Service
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError

_LONGEST_LEASE = 43_200
_SLICE = 0.1  # seconds between short polls, in the last second of a wait
_DEAD_LEASE = 30
_WANTED = ["ApproximateReceiveCount", "SentTimestamp", "MessageGroupId", "MessageDeduplicationId"]

_Received = dict[str, Any]


class SQSBroker(BrokerBase):
    """Queues of Amazon SQS.

    `url` is `sqs://eu-central-1`, with the credentials that boto3 finds, or `sqs://key:secret@host:port/` for another
    endpoint, by HTTP unless `tls=true`, with `region=`. `fifo=true` is for FIFO queues, `<name>.fifo`; `wait=` bounds
    how long one request waits. Leases and delays are whole seconds, rounded up. SQS delivers at least once, now and
    then twice, and takes an `ack` also from one whose lease is over. Safe to share between threads and to carry over a
    fork.
    """

    def __init__(self, url: str) -> None:
        address = read(url)
        super().__init__(capabilities_of("sqs-fifo" if address.fifo else "sqs"), address.shown)
        self._service = Service(address)
        self._fifo = address.fifo
        self._longest_wait = address.wait
        self._lock = threading.Lock()
        self._polls: set[Poll[_Received]] = set()

    def ensure(self, queue: str) -> None:
        self.require_open()
        self._service.make(self._service.require_name(queue))
        self._service.make(queue + DEAD)

    # sends

    def send(self, queue: str, message: Outgoing) -> str:
        self._check(queue, (message,))
        (entry,) = self._entries(queue, (message,))
        answer = self._service.ask(queue, "send_message", QueueUrl=self._service.url_of(queue), **entry)
        return str(answer["MessageId"]) if message.id is None else message.id

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        """An error says which messages were not sent."""
        self._check(queue, messages)
        entries = self._entries(queue, messages)
        return self._send_entries(queue, messages, entries) if entries else []

    def _check(self, queue: str, messages: Sequence[Outgoing]) -> None:
        self.require_open()
        self._service.require_name(queue)
        self.check_send(queue, messages)

    def _entries(self, queue: str, messages: Sequence[Outgoing]) -> list[batch.Entry]:
        entries = [letter.written(one, queue, fifo=self._fifo) for one in messages]
        largest = self.capabilities.largest_body or 0
        for entry in entries:
            if (size := letter.size(entry)) > largest:
                self.refuse(
                    f"a message of {size} bytes for queue {queue!r}, with its headers, and in base64 if it is no text",
                    f"it takes {largest} at most; put the content elsewhere and send where it is",
                )
        return entries

    def _send_entries(self, name: str, messages: Sequence[Outgoing], entries: Sequence[batch.Entry]) -> list[str]:
        url = self._service.url_of(name)
        sent: dict[int, str] = {}
        refused: Exception | None = None
        for positions in batch.chunks([letter.size(one) for one in entries]):
            some = [entries[position] for position in positions]
            try:
                answers = self._service.ask_batch(name, "send_message_batch", url, some)
            except (QueueStoreMissingError, QueueStoreUnavailableError) as error:
                refused = error
                break
            for position, answer in zip(positions, answers, strict=True):
                if "Code" not in answer:
                    given = messages[position].id
                    sent[position] = str(answer["MessageId"]) if given is None else given
                elif refused is None:
                    refused = self._service.refusal(answer)
            if refused is not None:
                break
        if refused is None:
            return [sent[position] for position in range(len(entries))]
        unsent = [position for position in range(len(entries)) if position not in sent]
        raise type(refused)(
            f"{refused}; of the {len(entries)} messages of the batch these are not known to be sent, counted from 0: "
            f"{batch.named(unsent)}"
        ) from refused

    # deliveries

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        self.check_receive(limit, wait, lease)
        seconds = self._visibility("a lease", lease)
        url = self._service.url_of(self._service.require_name(queue))
        look = partial(self._look, queue, url, seconds)
        deadline = time.monotonic() + wait
        since = time.time()
        found = look(limit, 0) if wait < 1 else []
        while not found and (left := deadline - time.monotonic()) > 0 and not self._closed.is_set():
            since = time.time()
            if left >= 1:
                found = self._poll(url, partial(look, limit, min(int(left), self._longest_wait)))
            elif not self._closed.wait(min(_SLICE, left)):
                found = look(limit, 0)
        while len(found) % batch.MOST == 0 and 0 < len(found) < limit and (more := look(limit - len(found), 0)):
            found += more
        return [letter.delivery(one, queue, url, since + seconds, fifo=self._fifo) for one in found]

    def _look(self, queue: str, url: str, lease: int, limit: int, wait: int) -> list[_Received]:
        answer = self._service.ask(
            queue,
            "receive_message",
            QueueUrl=url,
            MaxNumberOfMessages=min(limit, batch.MOST),
            VisibilityTimeout=lease,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=_WANTED,
        )
        return list(answer.get("Messages", ()))

    def _poll(self, url: str, look: Callable[[], list[_Received]]) -> list[_Received]:
        poll = Poll(look, partial(self._make_visible, url))
        with self._lock:
            self._polls.add(poll)
        try:
            if self._closed.is_set():
                poll.leave()
            return poll.wait()
        finally:
            with self._lock:
                self._polls.discard(poll)

    def _make_visible(self, url: str, found: Sequence[_Received]) -> None:
        """Give back what came when nobody waited any more."""
        client = self._service.client
        if found:
            entries = [{"ReceiptHandle": one["ReceiptHandle"], "VisibilityTimeout": 0} for one in found]
            batch.ask(client.change_message_visibility_batch, url, entries)
        if self._closed.is_set():
            client.close()

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return self._settle(deliveries, "delete_message_batch")

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        if not dead:
            seconds = self._visibility("a delay", delay)
            return self._settle(deliveries, "change_message_visibility_batch", VisibilityTimeout=seconds)
        self.require_open()
        why = envelope.error_header(error)
        for queue in dict.fromkeys(one.queue for one in deliveries):
            self._bury(queue, [one for one in deliveries if one.queue == queue], why)
        return self.ack(deliveries)

    def _bury(self, queue: str, deliveries: Sequence[Delivery], why: Mapping[str, str]) -> None:
        """Send copies to the dead letters, whose queue is made if another program has made the other one."""
        name = self._service.require_name(queue) + DEAD
        try:
            self._service.url_of(name)
        except QueueStoreMissingError:
            self._service.make(name)
        copied = [letter.dead_letter(one, why) for one in deliveries]
        self._send_entries(name, copied, self._entries(queue, copied))

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ValueError(f"seconds must be a number greater than zero, not {seconds!r}")
        whole, since = self._visibility("a lease", seconds), time.time()
        held = self._settle(deliveries, "change_message_visibility_batch", VisibilityTimeout=whole)
        return [since + whole if done else None for done in held]

    def written(self, delivery: Delivery) -> str:
        return json.dumps(delivery.receipt)

    def resumed(self, queue: str, message_id: str, receipt: str) -> Delivery:
        return Delivery(queue, message_id, b"", NO_HEADERS, 1, letter.Receipt(*json.loads(receipt)))

    def _visibility(self, what: str, seconds: float) -> int:
        if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise ValueError(f"{what} is a number of seconds from 0 on, not {seconds!r}")
        if seconds > _LONGEST_LEASE:
            self.refuse(f"{what} of {seconds:g} seconds", f"the longest is {_LONGEST_LEASE}")
        return math.ceil(seconds)

    def _settle(self, deliveries: Sequence[Delivery], operation: str, **options: Any) -> list[bool]:
        self.require_open()
        together: dict[tuple[str, str], list[int]] = {}
        for position, one in enumerate(deliveries):
            together.setdefault((one.queue, one.receipt.url), []).append(position)
        done = [False] * len(deliveries)
        for (queue, url), positions in together.items():
            for first in range(0, len(positions), batch.MOST):
                some = positions[first : first + batch.MOST]
                entries = [{"ReceiptHandle": deliveries[position].receipt.handle, **options} for position in some]
                answers = self._service.ask_batch(queue, operation, url, entries)
                for position, answer in zip(some, answers, strict=True):
                    done[position] = self._was_held(answer)
        return done

    def _was_held(self, answer: Mapping[str, Any]) -> bool:
        if "Code" not in answer:
            return True
        if errors.is_not_held(answer):
            return False
        raise self._service.refusal(answer)

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        """They are hidden from others for half a minute, or until they are settled."""
        self.require_open()
        self.check_receive(limit, 0.0, _DEAD_LEASE)
        self._service.url_of(self._service.require_name(queue))
        try:
            url = self._service.url_of(queue + DEAD)
        except QueueStoreMissingError:
            return []
        found: list[Delivery] = []
        until = time.time() + _DEAD_LEASE
        while len(found) < limit and (some := self._look(queue + DEAD, url, _DEAD_LEASE, limit - len(found), 0)):
            found += [letter.delivery(one, queue, url, until, fifo=self._fifo) for one in some]
        return [letter.with_attempts(one) for one in found]

    # looks

    def stats(self, queue: str) -> BrokerStats:
        """As SQS counts: approximately, and a little late."""
        self.require_open()
        ready, inflight, delayed = self._service.counts(self._service.require_name(queue))
        try:
            dead = sum(self._service.counts(queue + DEAD))
        except QueueStoreMissingError:
            dead = 0
        return BrokerStats(ready, inflight, delayed, dead)

    def purge(self, queue: str) -> int | None:
        """Those that are being handled are removed too. SQS does not say how many there were."""
        self.require_open()
        url = self._service.url_of(self._service.require_name(queue))
        self._service.ask(queue, "purge_queue", QueueUrl=url)
        return None

    def delete(self, queue: str) -> None:
        self.require_open()
        self._service.remove(self._service.require_name(queue))
        self._service.remove(queue + DEAD)

    def health(self) -> Health:
        self.require_open()
        return self.timed(self._service.greet)

    def close(self) -> None:
        super().close()
        with self._lock:
            polls = list(self._polls)
        for poll in polls:
            poll.leave()
        self._service.close()
