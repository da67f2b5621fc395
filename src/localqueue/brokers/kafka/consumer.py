"""What receivers see of a topic: records to take, to settle and to give back."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localqueue.brokers.kafka import records
from localqueue.brokers.kafka.member import Member
from localqueue.brokers.kafka.records import Receipt
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.brokers.kafka.topics import Topics
from localqueue.brokers.port import Delivery

_LOOK = 0.1
_GRACE = 10.0  # for so many seconds nothing is called empty while it is not known to be


class TopicConsumer(Member):
    """`most` records lie here untaken; of those that were taken, `prefetch` may be unsettled."""

    def __init__(
        self, settings: KafkaSettings, topics: Topics, topic: str, *, most: int, prefetch: float = math.inf
    ) -> None:
        self._prefetch = prefetch
        self._turn = 0
        self._woken = False
        super().__init__(settings, topics, topic, most=most)

    # taking

    def take(self, limit: int, wait: float) -> list[Delivery]:
        """Up to `limit` records, waiting for the first; an empty list also when it was woken or stopped."""
        self._await_group()
        deadline = time.monotonic() + wait
        found = self._take_until(limit, deadline)
        if not found and wait == 0:
            found = self._take_what_is_there(limit)
        return found

    def await_next(self, timeout: float) -> Delivery | None:
        """One record, for a subscription, which need not say whether there are more."""
        found = self._take_until(1, time.monotonic() + timeout)
        return found[0] if found else None

    def _await_group(self) -> None:
        """Joining the group is no part of the time that a receiver waits."""
        if not self._joined:
            deadline = time.monotonic() + _GRACE
            with self._changed:
                while not self._joined and not self._ended and time.monotonic() < deadline:
                    self._raise_failure()
                    self._changed.wait(_LOOK)

    def _take_until(self, limit: int, deadline: float, enough: Callable[[], bool] | None = None) -> list[Delivery]:
        with self._changed:
            while not self._ended:
                self._raise_failure()
                if self._woken:
                    self._woken = False
                    return []
                now = time.monotonic()
                if found := self._pop(limit, now):
                    return found
                if now >= deadline or (enough is not None and enough()):
                    return []
                if now > self._sure_until:  # the driver does not say so when a topic is removed
                    self._ask_for_topic()
                else:
                    self._changed.wait(min(deadline, self._sure_until, self._next_due(now)) - now)
        return []

    def _take_what_is_there(self, limit: int) -> list[Delivery]:
        """Nothing only when everything that was there at the beginning has been fetched."""
        with self._changed:
            numbers = list(self._partitions)
        ends = self._topics.ends(self.topic, numbers)

        def fetched() -> bool:
            return self._held >= self._prefetch or all(
                number not in self._partitions or self._partitions[number].has_fetched(end)
                for number, end in ends.items()
            )

        return self._take_until(limit, time.monotonic() + _GRACE, fetched)

    def _pop(self, limit: int, now: float) -> list[Delivery]:
        found: list[Delivery] = []
        limit = int(min(limit, self._prefetch - self._held))
        partitions = list(self._partitions.values())
        for step in range(len(partitions)):
            partition = partitions[(self._turn + step) % len(partitions)]
            while len(found) < limit and not partition.leaving and (taken := partition.take(now)) is not None:
                record, offset, count = taken
                found.append(records.delivery(self.topic, record, Receipt(self, partition, offset, count), count))
        self._turn += 1
        if found:
            self._held += len(found)
            self._lying -= len(found)
            self._changed.notify_all()
        return found

    def _next_due(self, now: float) -> float:
        """When a partition goes on by itself. One that could but may not yet is told of."""
        due = (when for one in self._partitions.values() if (when := one.blocked_until()) is not None and when > now)
        return min(due, default=now + 3600.0)

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    # settling

    def finish(self, receipts: Sequence[Receipt]) -> list[bool]:
        """They are done, and that is committed, when this returns."""
        with self._changed:
            done = [partition.finish(offset, number) for _, partition, offset, number in receipts]
        touched = {one.partition for one, held in zip(receipts, done, strict=True) if held}
        if not touched:
            return done
        self._commit(touched)
        with self._changed:
            for position, (_, partition, offset, _) in enumerate(receipts):
                if done[position]:
                    done[position] = partition.release(offset)
                    self._held -= done[position]
            self._tell_of_room()
        return done

    def give_back(self, receipts: Sequence[Receipt], delay: float) -> list[bool]:
        due = time.monotonic() + delay if delay else 0.0
        with self._changed:
            done = []
            for one in receipts:
                done.append(one.partition.holds(one.offset, one.number))
                if done[-1] and not (self._retiring or one.partition.leaving):
                    one.partition.give_back(one.offset, due)
                    self._held -= 1
                    self._lying += 1
                elif done[-1]:  # whoever has the partition next finds it there
                    self._held -= one.partition.release(one.offset)
            self._tell_of_room()
        return done

    def holds(self, receipt: Receipt) -> bool:
        with self._changed:
            return receipt.partition.holds(receipt.offset, receipt.number)

    def _tell_of_room(self) -> None:
        if self._retiring and not self._held:
            self._stopping = True
        self._changed.notify_all()

    def skip(self, ends: Mapping[int, int]) -> None:
        """Records before these offsets were removed: those that lie here too."""
        with self._changed:
            for number, end in ends.items():
                if number in self._partitions:
                    self._lying -= self._partitions[number].skip_to(end)
            self._changed.notify_all()

    # the end

    @property
    def is_over(self) -> bool:
        """Whether no more will come of it."""
        return self._ended or self._failure is not None

    def retire(self) -> None:
        """Leave the group as soon as what was taken is settled, or is not in time; what was not is left to others."""
        with self._changed:
            self._retiring = True
            self._retire_by = time.monotonic() + self._settings.handover
            for partition in self._partitions.values():
                self._drop(partition)
            self._stopping = self._stopping or not self._held
            self._changed.notify_all()
        if self._stopping:
            self._await_end()

    def abandon(self) -> Any:
        """In a child of a fork: nothing of it is held there. The driver's object, which must not be used or ended."""
        self._changed = threading.Condition()
        for partition in self._partitions.values():
            partition.gone = True
        self._stopping = True
        return self._consumer
