"""The reference model: what the port means, in plain dicts and loops.

Slow and simple on purpose. `localqueue.contracts.machine` gives it and a store the same steps and compares what they
show. A step that raises may leave a model half changed: the machine takes a copy before, which is how "all or
nothing" is said here. Nothing runs in the background. What has fallen due is settled by the next claim, and by a put
that drops the oldest; a dedupe key is freed by the put that needs it. Everything else finds messages as they were left,
and counts those that are due as what the next claim makes of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from localqueue.errors import CircularDependency, DedupeKeyInUse, NotWaiting, QueueFull, RunCancelled, UnknownMessage
from localqueue.stores.port import Limit, NewMessage

_OPTIONS = {
    name: NewMessage._field_defaults[name]
    for name in ("priority", "dedupe_key", "ordering_key", "run_id", "headers", "delay", "ttl")
}
NEVER = float("inf")
LIVE = ("ready", "delayed", "inflight", "waiting", "blocked")
HEADS = ("ready", "delayed", "inflight")


@dataclass
class Message:
    id: str
    queue: str
    payload: str | bytes
    priority: int
    available_at: float
    expires_at: float | None
    dedupe_key: str | None
    ordering_key: str | None
    run_id: str | None
    after: set[str]
    state: str = "ready"
    attempts: int = 0
    forgiven: int = 0
    leased_until: float = 0.0
    most: int | None = None
    ended_at: float = 0.0
    options: dict[str, Any] | None = None  # as the journal knows them
    position: float | None = None  # in the line, while it is ready for the first time and the line is steady

    @property
    def turn(self) -> tuple[float, str]:
        """Who is first of the same priority."""
        return self.available_at if self.position is None else self.position, self.id

    def exhausted(self, max_attempts: int | None) -> bool:
        most = self.most if self.most is not None else max_attempts
        return self.state == "inflight" and most is not None and self.attempts - self.forgiven >= most

    def holds(self, token: int) -> bool:
        return self.state == "inflight" and self.attempts == token

    def past_ttl(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def due_at(self) -> float:
        """When its state changes by itself. Whether the life of a leased message is over is decided after the lease."""
        if self.state == "inflight":
            return self.leased_until
        life = NEVER if self.expires_at is None else self.expires_at
        if self.state == "delayed":
            return min(self.available_at, life)
        return life if self.state in LIVE else NEVER

    def due(self, now: float) -> bool:
        return self.due_at() <= now


@dataclass
class Model:
    messages: dict[str, Message] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    paused_workers: set[tuple[str, str]] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)
    run_total: Counter[str] = field(default_factory=Counter)
    run_done: Counter[str] = field(default_factory=Counter)
    cancelled_runs: set[str] = field(default_factory=set)
    now: float = 0.0
    steady_line: bool = False  # what is put stands behind all that is there, also when the clock goes back
    ends: dict[str, float] = field(default_factory=dict)  # of steady lines

    def of(self, queue: str, *states: str) -> list[Message]:
        """Messages of a queue by id, of these states if any are given."""
        found = [m for m in self.messages.values() if m.queue == queue and (not states or m.state in states)]
        return sorted(found, key=lambda m: m.id)

    def counts(self, queue: str) -> Counter[str]:
        """What `stats` shows: due messages count as what the next claim makes of them."""
        return Counter(self._shown(message) for message in self.of(queue))

    def load(self, queue: str) -> int:
        counts = self.counts(queue)
        return counts["ready"] + counts["blocked"]

    def _shown(self, message: Message) -> str:
        if not message.due(self.now):
            return message.state
        if message.exhausted(None):
            return "dead"
        return "expired" if message.past_ttl(self.now) else "ready"

    def put(self, batch: list[NewMessage], limits: dict[str, Limit]) -> list[str]:
        """The outcome of each message of a commit."""
        return [self._put_one(message, limits.get(message.queue)) for message in batch]

    def _put_one(self, new: NewMessage, limit: Limit | None) -> str:
        spill = None if limit is None else limit.overflow_queue
        if self._holder(new.queue, new.dedupe_key) or (spill and self._holder(spill, new.dedupe_key)):
            return "duplicate"
        queue, outcome = new.queue, "stored"
        if limit is not None and limit.maxsize > 0 and self.load(queue) >= limit.maxsize:
            if limit.overflow == "reject":
                raise QueueFull(queue, limit.maxsize)
            if limit.overflow == "drop-newest":
                self.dropped[queue] += 1
                return "dropped"
            if limit.overflow == "drop-oldest":
                self._drop_oldest(queue)
            else:
                queue, outcome = limit.overflow_queue or "", "diverted"
        if new.run_id is not None:
            if new.run_id in self.cancelled_runs:
                raise RunCancelled(new.run_id)
            self.run_total[new.run_id] += 1
        self._insert(new, queue)
        return outcome

    def _insert(self, new: NewMessage, queue: str) -> None:
        for upstream in new.after:
            if upstream not in self.messages and upstream not in self.acked:
                raise UnknownMessage(upstream)
        message = Message(
            id=new.id,
            queue=queue,
            payload=new.payload,
            priority=new.priority,
            available_at=self.now + new.delay,
            expires_at=None if new.ttl is None else self.now + new.ttl,
            dedupe_key=new.dedupe_key,
            ordering_key=new.ordering_key,
            run_id=new.run_id,
            after={upstream for upstream in new.after if upstream not in self.acked},
        )
        given = {name: getattr(new, name) for name in _OPTIONS}
        message.options = {name: value for name, value in given.items() if value != _OPTIONS[name]} or None
        self._land(message)
        if self.steady_line and message.state == "ready":
            self.ends[queue] = message.position = max(self.ends.get(queue, 0.0), message.available_at)
        self.messages[new.id] = message

    def _holder(self, queue: str, dedupe_key: str | None) -> Message | None:
        """The live message that has the key, unless its life is over: then that is settled, and the key is free."""
        holder = self._live_with(queue, dedupe_key)
        if holder is not None and holder.due(self.now) and holder.past_ttl(self.now):
            self._fall_due(holder, None)
            return None
        return holder

    def _live_with(self, queue: str, dedupe_key: str | None) -> Message | None:
        if dedupe_key is None:
            return None
        return next((m for m in self.of(queue, *LIVE) if m.dedupe_key == dedupe_key), None)

    def _drop_oldest(self, queue: str) -> None:
        """There may be none left: what has outlived its time expires instead."""
        self._settle_due(queue, None)
        ready = sorted(self.of(queue, "ready"), key=lambda m: m.turn)
        for oldest in (ready or self.of(queue, "blocked"))[:1]:
            del self.messages[oldest.id]
            self.dropped[queue] += 1
            self._next_of_key(oldest)

    def _land(self, message: Message) -> None:
        """The state of a message that comes (back) into delivery."""
        message.position = None
        if message.past_ttl(self.now):
            self._end(message, "expired")
        elif message.after:
            message.state = "waiting"
        elif self._is_behind(message):
            message.state = "blocked"
        else:
            message.state = "delayed" if message.available_at > self.now else "ready"

    def _is_behind(self, message: Message) -> bool:
        """Whether another message holds its ordering key."""
        if message.ordering_key is None:
            return False
        heads = self.of(message.queue, *HEADS)
        return any(m.ordering_key == message.ordering_key for m in heads if m is not message)

    def _end(self, message: Message, state: str) -> None:
        message.state = state
        message.ended_at = self.now

    def _next_of_key(self, left: Message) -> None:
        """A message left: the next of its key, if nobody holds the key now, takes its place."""
        if left.ordering_key is None:
            return
        same = [m for m in self.of(left.queue) if m.ordering_key == left.ordering_key]
        for message in same:
            if any(other.state in HEADS for other in same):
                return
            if message.state == "blocked":
                self._land(message)

    def _settle_due(self, queue: str, max_attempts: int | None) -> None:
        """Leases first, then the other timers, each in the order they passed."""
        for states in (("inflight",), tuple(state for state in LIVE if state != "inflight")):
            due = [m for m in self.of(queue, *states) if m.due(self.now)]
            for message in sorted(due, key=lambda m: (m.due_at(), m.id)):
                if message.due(self.now):  # or else it expired with the head of its key that left
                    self._fall_due(message, max_attempts)

    def _fall_due(self, message: Message, max_attempts: int | None) -> None:
        if message.state == "inflight":
            message.available_at = message.leased_until
        if message.exhausted(max_attempts):
            self._end(message, "dead")
        elif message.past_ttl(self.now):
            self._end(message, "expired")
        else:
            message.state = "ready"
        self._next_of_key(message)

    def lease(
        self,
        queue: str,
        limit: int,
        timeout: float,
        max_attempts: int | None,
        consume: bool,
        worker: str | None = None,
    ) -> list[str]:
        if queue in self.paused or (queue, worker) in self.paused_workers:
            return []
        self._settle_due(queue, max_attempts)
        taken = sorted(self.of(queue, "ready"), key=lambda m: (-m.priority, *m.turn))[:limit]
        for message in taken:
            message.state = "inflight"
            message.position = None
            message.attempts += 1
            message.leased_until = self.now + timeout
            message.most = max_attempts
        if consume:
            for message in taken:
                self._ack(message)
        return [message.id for message in taken]

    def renew(self, queue: str, message_id: str, token: int, timeout: float) -> bool:
        message = self._current(queue, message_id, token)
        if message is None:
            return False
        message.leased_until = self.now + timeout
        return True

    def _current(self, queue: str, message_id: str, token: int | None) -> Message | None:
        message = self.messages.get(message_id)
        if message is None or message.queue != queue:
            return None
        if token is not None and not message.holds(token):
            return None
        return message

    def settle(
        self,
        queue: str,
        message_id: str,
        action: str,
        token: int | None,
        delay: float,
        max_attempts: int | None,
        forgive: bool = False,
    ) -> bool:
        message = self._current(queue, message_id, token)
        if message is None:
            return False
        if action == "ack":
            self._ack(message)
            return True
        if message.state not in LIVE or (action == "release" and message.state in ("waiting", "blocked")):
            return False
        if action == "release":
            used = message.attempts - message.forgiven
            forgiven = forgive and message.state == "inflight"
            if not forgiven and max_attempts is not None and message.state == "inflight" and used >= max_attempts:
                self._end(message, "dead")
            else:
                message.forgiven += forgiven
                message.available_at = message.available_at if forgiven else self.now + delay
                self._land(message)
        else:
            self._end(message, "dead" if action == "dead-letter" else "cancelled")
        self._next_of_key(message)
        return True

    def _ack(self, message: Message) -> None:
        del self.messages[message.id]
        self.acked.add(message.id)
        if message.run_id is not None:
            self.run_done[message.run_id] += 1
        self._next_of_key(message)
        dependents = [m for m in self.messages.values() if message.id in m.after]
        for dependent in sorted(dependents, key=lambda m: m.id):
            dependent.after.discard(message.id)
            if dependent.state == "waiting" and not dependent.after:
                dependent.available_at = max(dependent.available_at, self.now)
                self._land(dependent)

    def add_edge(self, upstream: str, dependent: str) -> None:
        message = self.messages.get(dependent)
        if message is None or message.state != "waiting":
            raise NotWaiting(dependent)
        if self._waits_for(upstream, dependent):
            raise CircularDependency(dependent)
        if upstream not in self.messages and upstream not in self.acked:
            raise UnknownMessage(upstream)
        if upstream not in self.acked:
            message.after.add(upstream)

    def _waits_for(self, waiting: str, upstream: str) -> bool:
        above, new = {waiting}, {waiting}
        while new:
            new = {one for key in new if key in self.messages for one in self.messages[key].after} - above
            above |= new
        return upstream in above

    def requeue(self, queue: str, ids: list[str] | None, delay: float) -> int:
        dead = sorted(self.of(queue, "dead"), key=lambda m: (m.ended_at, m.id))
        chosen = dead if ids is None else [self.messages[i] for i in dict.fromkeys(ids) if i in self.messages]
        count = 0
        for message in chosen:
            if message.queue != queue or message.state in LIVE:
                continue
            if self._live_with(queue, message.dedupe_key):
                if ids is None:
                    continue
                raise DedupeKeyInUse(message.id)
            if message.past_ttl(self.now + delay):
                message.expires_at = None
            message.available_at = self.now + delay
            message.forgiven = message.attempts
            message.state = "ready"
            self._land(message)
            count += 1
        return count

    def prune(self, queue: str, state: str, older_than: float) -> int:
        return self._remove([m for m in self.of(queue, state) if m.ended_at <= self.now - older_than])

    def purge(self, queue: str) -> int:
        self.dropped[queue] = 0
        return self._remove(self.of(queue))

    def _remove(self, gone: list[Message]) -> int:
        for message in gone:
            del self.messages[message.id]
        return len(gone)

    def cancel_run(self, run_id: str) -> int:
        if run_id not in self.run_total:
            return 0
        self.cancelled_runs.add(run_id)
        live = [m for m in self.messages.values() if m.run_id == run_id and m.state in LIVE]
        for message in live:
            self._end(message, "cancelled")
        for message in live:
            self._next_of_key(message)
        return len(live)
