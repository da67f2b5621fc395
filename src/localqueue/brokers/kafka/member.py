"""A member of the group that reads one topic.

One thread polls, which also is what lets Kafka know that this process works, and what makes a partition come and go. It
fetches into the lines of the partitions, from which receivers take. When the lines are full for a while the partitions
are paused: then nothing is fetched, and the thread still polls.

The driver lets one thread at a time use a consumer, and a poll that waits uses it. So this thread also commits for all
who ack, and waits in a poll only while nobody can: when nothing lies here and nothing is held. A poll that brings the
loss of partitions brings no answer to a commit before that is over: so what waits for one is committed then and there.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import Any

from localqueue.brokers.kafka.commits import SHORT, Commits
from localqueue.brokers.kafka.errors import is_missing, missing, translate
from localqueue.brokers.kafka.ledger import Ledger, read
from localqueue.brokers.kafka.partition import Partition
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.brokers.kafka.topics import Topics
from localqueue.errors import QueueError, QueueStoreUnavailableError

_SLICE = 0.1  # seconds that one poll waits
_FULL = 10.0  # for so many seconds the lines may be full before partitions are paused
_SILENCE = 1.0  # for so many seconds the thread may not poll while they are
_LONG = 0.02
_AT_ONCE = 500
_BREATH = 0.0005  # seconds between two polls for an answer, each of which may bring a record there is no room for
_PROBE = 2.0
_SURE = 3.0  # for so many seconds a topic that was seen is taken to be there


class Member(Commits):
    """`most` records lie here untaken."""

    def __init__(self, settings: KafkaSettings, topics: Topics, topic: str, *, most: int) -> None:
        super().__init__(settings, topic)
        self._topics = topics
        self._most = most
        self._came = False
        self._idle_for = SHORT
        self._polled_at = 0.0
        self._full_since = math.inf
        self._partitions: dict[int, Partition] = {}
        self._lying = 0
        self._behind = 0
        self._held_up: set[int] = set()
        self._held = 0
        self._joined = False
        self._failure: QueueError | None = None
        self._in_trouble = False
        self._retiring = False
        self._retire_by = math.inf
        self._sure_until = time.monotonic() + _SURE
        self._paused = False
        self._consumer = self._driver.Consumer(
            {**settings.consumer(settings.group_of(topic)), "error_cb": self._heed, "on_commit": self._have_committed}
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run, name=f"localqueue-kafka-{topic}", daemon=True)
        self._thread.start()

    # the group

    def _assigned(self, consumer: Any, assigned: list[Any]) -> None:
        known = {one.partition: one for one in self._committed(consumer, assigned)}
        starts = []
        for one in assigned:
            found = known.get(one.partition)
            begins = found is not None and found.error is None and found.offset >= 0
            offset = found.offset if found is not None and begins else self._driver.OFFSET_STORED
            starts.append(self._driver.TopicPartition(one.topic, one.partition, offset))
        consumer.incremental_assign(starts)
        with self._changed:
            for one in starts:
                found = known.get(one.partition)
                metadata = None if found is None else found.metadata
                ledger = Ledger(max(0, one.offset), read(metadata) if one.offset >= 0 else ())
                self._partitions[one.partition] = Partition(one.partition, ledger)
            self._paused = False
            self._joined = True
            self._changed.notify_all()

    def _committed(self, consumer: Any, assigned: list[Any]) -> list[Any]:
        if assigned:
            with suppress(self._driver.KafkaException):  # then the driver asks by itself
                found: list[Any] = consumer.committed(assigned, timeout=self._settings.timeout)
                return found
        return []

    def _revoked(self, consumer: Any, revoked: list[Any]) -> None:
        """Before partitions go, wait until what was taken of them is settled."""
        deadline = time.monotonic() + self._settings.handover
        with self._changed:
            leaving = [self._partitions[one.partition] for one in revoked if one.partition in self._partitions]
            for partition in leaving:
                partition.leaving = True
                self._drop(partition)
        self._commit_underway_now()
        while not self._stopping and self._must_wait_for(leaving, deadline):
            self._serve_requests(at_once=True)
        with self._changed:
            for partition in leaving:
                self._forget(partition)
        consumer.incremental_unassign(revoked)

    def _must_wait_for(self, leaving: list[Partition], deadline: float) -> bool:
        with self._changed:
            left = deadline - time.monotonic()
            if left <= 0 or not any(one.held for one in leaving):
                return False
            self._changed.wait_for(
                lambda: self._requests or self._stopping or not any(one.held for one in leaving), min(left, _FULL)
            )
            return True

    def _lost(self, consumer: Any, lost: list[Any]) -> None:
        with self._changed:
            for one in lost:
                if one.partition in self._partitions:
                    self._forget(self._partitions[one.partition])
        consumer.incremental_unassign(lost)

    def _drop(self, partition: Partition) -> None:
        self._lying -= len(partition.line) + len(partition.returned)
        partition.drop()

    def _forget(self, partition: Partition) -> None:
        if not partition.gone:
            self._drop(partition)
            self._held -= len(partition.held)
            partition.gone = True
            if self._partitions.get(partition.number) is partition:
                del self._partitions[partition.number]
            self._changed.notify_all()

    # the thread

    def _run(self) -> None:
        try:
            while not self._stopping and time.monotonic() < self._retire_by:
                self._poll(0.0 if self._rest() else _SLICE)
                self._serve_requests()
        except Exception as error:
            with self._changed:
                self._failure = QueueStoreUnavailableError(
                    f"reading topic {self.topic!r} at {self._settings.shown} has ended: {error!r}",
                    path=self._settings.shown,
                )
        finally:
            with self._changed:
                self._stopping = True
                self._changed.notify_all()
            self._consumer.close()
            with self._changed:
                for partition in list(self._partitions.values()):
                    self._forget(partition)
                self._has_left = True
                self._changed.notify_all()

    def _rest(self) -> bool:
        """Wait for requests if there may be some, the longer the less happens; whether there may."""
        with self._changed:
            if not self._lying and not self._held:
                return bool(self._requests)
            self._idle_for = SHORT if self._came else min(2 * self._idle_for, _LONG)
            if not self._came:
                enough = self._has_enough
                self._changed.wait_for(
                    lambda: self._requests or self._stopping or self._has_enough is not enough,
                    _SLICE if enough else self._idle_for,
                )
            return True

    def _poll(self, timeout: float) -> None:
        """While enough lies here, only a record in a second is taken from the driver, to be heard of in the group.

        If the lines stay full, the driver is told to fetch nothing, which also makes it throw away what it has fetched.
        Who waits for an answer polls nevertheless, and what comes with it is taken.
        """
        self._hold_up()
        room, self._came = self._room(), False
        now = time.monotonic()
        if self._has_enough and not self._paused and self._underway is None and now < self._polled_at + _SILENCE:
            return
        self._pause(room <= 0 and (self._retiring or now - self._full_since > _FULL), room)
        if room <= 0 and not self._paused and self._underway is not None:
            time.sleep(_BREATH)
            timeout = 0.0
        first = self._consumer.poll(timeout)
        self._polled_at = now
        self._came = first is not None
        if first is not None:
            self._accept([first, *self._consumer.consume(min(room, _AT_ONCE) - 1, 0)] if room > 1 else [first])

    @property
    def _has_enough(self) -> bool:
        """More is fetched while a commit is underway, when receivers wait anyway."""
        return 2 * (self._lying - self._behind) > self._most

    def _hold_up(self) -> None:
        """A partition that waits for a retry fetches no more, and what lies in it takes no room of the others."""
        now = time.monotonic()
        with self._changed:
            blocked = [one for one in self._partitions.values() if (one.blocked_until() or 0.0) > now]
            self._behind = sum(len(one.line) + len(one.returned) for one in blocked)
            numbers = {one.number for one in blocked}
            stop, go = numbers - self._held_up, (self._held_up - numbers) & self._partitions.keys()
            self._held_up = numbers
        if stop:
            self._consumer.pause([self._driver.TopicPartition(self.topic, number) for number in stop])
        if go and not self._paused:
            self._consumer.resume([self._driver.TopicPartition(self.topic, number) for number in go])

    def _room(self) -> int:
        with self._changed:
            room = self._most - self._lying + self._behind
            if room > 0:
                self._full_since = math.inf
            elif self._full_since == math.inf:
                self._full_since = time.monotonic()
            return 0 if self._retiring else room

    def _pause(self, paused: bool, room: int) -> None:
        """What was paused goes on when half of the room is free: going on takes the driver up to a second."""
        if paused and not self._paused:
            self._consumer.pause(self._consumer.assignment())
            self._paused = True
        elif self._paused and not paused and room >= (self._most + 1) // 2:
            self._consumer.resume(self._consumer.assignment())
            self._paused, self._held_up = False, set()

    def _accept(self, fetched: list[Any]) -> None:
        with self._changed:
            self._sure_until = time.monotonic() + _SURE
            for record in fetched:
                error = record.error()
                partition = self._partitions.get(record.partition())
                if error is not None:
                    self._accept_error(error, partition, record)
                elif partition is not None and not partition.leaving and partition.fetch(record):
                    self._lying += 1
            self._changed.notify_all()

    def _accept_error(self, error: Any, partition: Partition | None, record: Any) -> None:
        if error.name() == "_PARTITION_EOF":
            if partition is not None:
                partition.end = record.offset()
        elif is_missing(error):
            self._failure = missing(self.topic, self._settings.shown)
        elif error.fatal() or not error.retriable():
            self._failure = translate(error, self.topic, self._settings.shown)

    def _heed(self, error: Any) -> None:
        """What the driver says beside the records; it tries again by itself."""
        with self._changed:
            if error.name() == "_ALL_BROKERS_DOWN":
                self._in_trouble = True
            elif error.fatal() or error.name() == "_AUTHENTICATION":
                self._failure = translate(error, self.topic, self._settings.shown)
            self._changed.notify_all()

    def _raise_failure(self) -> None:
        """Called with the lock."""
        if self._failure is not None:
            raise self._failure
        if self._in_trouble:
            self._ask_for_topic()
            self._in_trouble = False

    def _ask_for_topic(self) -> None:
        """Called with the lock, which is free while the server is asked."""
        self._changed.release()
        try:
            self._topics.partitions(self.topic, timeout=_PROBE)
            self._sure_until = time.monotonic() + _SURE
        finally:
            self._changed.acquire()

    # the end

    @property
    def _ended(self) -> bool:
        return self._stopping or self._retiring

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Leave the group soon; what was taken and not settled is received by others."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """Leave the group, and return when that is done."""
        self.stop()
        self._await_end()

    def _await_end(self) -> None:
        """The driver can not leave a group while no server answers. Its thread goes on to try, and nobody waits."""
        self._thread.join(_PROBE if self._in_trouble else self._settings.timeout)
