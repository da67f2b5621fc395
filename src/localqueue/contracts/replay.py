"""Replaying a journal: the reference model is told what happened, entry by entry.

    assert replay(store.events()).differences(store) == []

Every entry must be a legal step from what the entries before it have made of the messages, or `IllegalEntry` is raised:
leased only when it is deliverable and by the next attempt, settled only by the current one, of one ordering key one
message at a time and in the order of the line, after its upstream messages and its delay, within its life, nothing
after the ack. In the end the store must hold exactly what is left.

The journal must be there from the first message on. What a message was put after is not in it: who knows gives it as
`after`, the upstream messages by id. Without that a message that waits is not told from one that is ready.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from localqueue.contracts.model import LIVE, Message, Model
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import STATES, QueueStore

_ENDED = STATES[len(LIVE) :]
_UNLEASED = tuple(state for state in LIVE if state != "inflight")

#: The states in which an entry may find its message. Operators may ack, and purge, whatever is stored.
_FROM: dict[str, tuple[str, ...]] = {
    "leased": ("ready",),
    "renewed": ("inflight",),
    "acked": STATES,
    "released": ("ready", "inflight"),
    "lease_expired": ("inflight",),
    "dead_lettered": LIVE,
    "cancelled": LIVE,
    "expired": _UNLEASED,
    "requeued": _ENDED,
    "pruned": _ENDED,
    "purged": STATES,
    "dropped": ("ready", "blocked"),
}
_ENDS = {"dead_lettered": "dead", "cancelled": "cancelled", "expired": "expired"}
_BY_HOLDER = ("renewed", "acked", "released", "lease_expired")
_A_ROUNDING = 1e-5  # of times in options, in seconds
_A_JUMP = 0.5  # seconds; commits are not in the order of their times to the last bit


class IllegalEntry(AssertionError):
    """An entry that can not follow the ones before it."""

    def __init__(self, entry: JournalEvent, why: str) -> None:
        super().__init__(f"entry {entry.seq}, {entry.type} of {entry.message_id} in {entry.queue!r}: {why}")
        self.entry, self.why = entry, why


class Seen(NamedTuple):
    """What can be seen of a message, and the journal knows as well."""

    id: str
    queue: str
    state: str
    attempts: int
    waiting_on: int


@dataclass
class Replay(Model):
    """The model as a journal makes it. Timers pass when an entry says so; `ready` is also what has a delay."""

    after: Mapping[str, Collection[str]] | None = None
    last: int = 0  # the number of the last entry
    lives: dict[str, float] = field(default_factory=dict)  # when they end, of those never requeued
    mortal: set[str] = field(default_factory=set)
    delays: dict[str, float] = field(default_factory=dict)  # when they end, of those that were never in delivery
    workers: dict[str, str | None] = field(default_factory=dict)  # of leased messages
    landed: dict[str, float] = field(default_factory=dict)

    def read(self, entries: Iterable[JournalEvent]) -> Self:
        for entry in entries:
            self._read(entry)
        return self

    def _read(self, entry: JournalEvent) -> None:
        if entry.seq <= self.last:
            raise IllegalEntry(entry, f"the one before it has the number {self.last}")
        if entry.at < self.now - _A_JUMP:
            self.delays.clear()  # the clock went back: what it says now is not how far it had come
        self.last, self.now = entry.seq, entry.at
        if entry.type == "enqueued":
            self._enqueued(entry)
            return
        message = self._legal(entry)
        match entry.type:
            case "leased":
                self._leased(entry, message)
            case "acked":
                self._ack(message)
            case "released":
                self.delays.pop(message.id, None)
                self._land(message)
            case "lease_expired":
                message.state = "ready"
            case "dead_lettered" | "cancelled" | "expired":
                self._end(message, _ENDS[entry.type])
                self._next_of_key(message)
            case "requeued":
                self._take_dedupe_key(entry, message.dedupe_key)
                self.lives.pop(message.id, None)
                self.delays.pop(message.id, None)
                self._land(message)
            case "pruned" | "purged" | "dropped":
                del self.messages[message.id]
                self._next_of_key(message)

    def _legal(self, entry: JournalEvent) -> Message:
        """The message of an entry that can follow the ones before it."""
        message = self.messages.get(entry.message_id)
        if message is None:
            raise IllegalEntry(entry, "it was acked" if entry.message_id in self.acked else "no such message is stored")
        if entry.queue != message.queue:
            raise IllegalEntry(entry, f"it is in {message.queue!r}")
        if entry.type == "leased" and message.state == "blocked":
            self._overtake(message)
        if message.state not in _FROM[entry.type]:
            raise IllegalEntry(entry, f"it is {message.state}{self._because(message)}")
        attempts = message.attempts + (entry.type == "leased")
        if entry.attempt != attempts:
            raise IllegalEntry(entry, f"attempt {entry.attempt!r}, not {attempts}")
        if entry.type in _BY_HOLDER and message.state == "inflight" and entry.worker != self.workers[message.id]:
            raise IllegalEntry(entry, f"by {entry.worker!r}, leased by {self.workers[message.id]!r}")
        if entry.type == "expired" and not self._has_outlived(entry.message_id, entry.at):
            raise IllegalEntry(entry, "its life is not over")
        return message

    def _because(self, message: Message) -> str:
        if message.state == "waiting":
            return f" for {', '.join(sorted(message.after))}"
        head = self._head(message)
        return "" if head is None or message.state != "blocked" else f" behind {head.id}, which is {head.state}"

    def _has_outlived(self, message_id: str, at: float) -> bool:
        over = self.lives.get(message_id)
        return message_id in self.mortal and (over is None or over <= at + _A_ROUNDING)

    def _enqueued(self, entry: JournalEvent) -> None:
        if entry.message_id in self.messages or entry.message_id in self.acked:
            raise IllegalEntry(entry, "it was put before")
        options = entry.options or {}
        self._take_dedupe_key(entry, options.get("dedupe_key"))
        if (ttl := options.get("ttl")) is not None:
            self.lives[entry.message_id] = entry.at + ttl
            self.mortal.add(entry.message_id)
        if delay := options.get("delay"):
            self.delays[entry.message_id] = entry.at + delay
        upstream = () if self.after is None else self.after.get(entry.message_id, ())
        message = Message(
            id=entry.message_id,
            queue=entry.queue,
            payload=entry.payload or "",
            priority=options.get("priority", 0),
            available_at=entry.at,
            expires_at=None,  # an entry will say so
            dedupe_key=options.get("dedupe_key"),
            ordering_key=options.get("ordering_key"),
            run_id=options.get("run_id"),
            after=set(upstream) - self.acked,
            attempts=entry.attempt or 0,
        )
        self._land(message)
        self.messages[message.id] = message

    def _take_dedupe_key(self, entry: JournalEvent, dedupe_key: str | None) -> None:
        """One whose life is over gives its key away, and the commit may say that later."""
        holder = self._live_with(entry.queue, dedupe_key)
        if holder is not None and not self._has_outlived(holder.id, entry.at):
            raise IllegalEntry(entry, f"{holder.id} holds its dedupe key {dedupe_key!r}")

    def _leased(self, entry: JournalEvent, message: Message) -> None:
        if self.lives.get(message.id, entry.at + 1) <= entry.at - _A_ROUNDING:
            raise IllegalEntry(entry, f"its life ended at {self.lives[message.id]}")
        if self.delays.pop(message.id, entry.at) > entry.at + _A_ROUNDING:
            raise IllegalEntry(entry, "its delay is not over")
        message.state = "inflight"
        message.attempts += 1
        self.workers[message.id] = entry.worker

    def _land(self, message: Message) -> None:
        super()._land(message)
        message.state = message.state.replace("delayed", "ready")
        self.landed[message.id] = self.now

    def _head(self, message: Message) -> Message | None:
        heads = (m for m in self.of(message.queue, "ready", "inflight") if m.ordering_key == message.ordering_key)
        return None if message.ordering_key is None else next(heads, None)

    def _overtake(self, message: Message) -> None:
        """Have a message at the head of its line that may be there for all that the journal tells: the order of the
        entries of one commit is not that of its decisions, and a message that waits does not hold its key."""
        head = self._head(message)
        if head is None or head.state == "inflight":
            return
        if self.after is None or self.landed[head.id] == self.landed[message.id]:
            head.state, message.state = "blocked", "ready"

    # what is left

    def differences(self, store: QueueStore) -> list[str]:
        """Where the store does not hold what the journal tells, or has written entries that were not read."""
        found = []
        if (written := store.journal_span()[1]) != self.last:
            found.append(f"entries up to {written} were written, and up to {self.last} read")
        queues = store.queues()
        messages = [message for queue in queues for message in store.scan(queue)]
        found += self.compare(Seen(m.id, m.queue, m.state, m.attempts, m.waiting_on) for m in messages)
        for queue in queues:
            total, expected = store.stats(queue).total, len(self.of(queue))
            if total != expected:
                found.append(f"{queue!r} counts {total} messages, not {expected}")
        return found

    def compare(self, messages: Iterable[Seen]) -> list[str]:
        """Where these messages are not those that the journal tells of."""
        seen = {message.id: message for message in messages}
        found = [f"{m.id} is not there; it is {m.state}" for m in self.messages.values() if m.id not in seen]
        for one in seen.values():
            message = self.messages.get(one.id)
            if message is None:
                found.append(f"{one.id} is there; it {'was acked' if one.id in self.acked else 'was never put'}")
                continue
            if message.state == "blocked" and one.state in ("ready", "delayed"):
                self._overtake(message)
            known = Seen(one.id, message.queue, message.state, message.attempts, len(message.after))
            if self._comparable(known) != self._comparable(one):
                found.append(f"{one} is there, by the journal it is {known}")
        return found

    def _comparable(self, one: Seen) -> Seen:
        if self.after is None:
            return one._replace(state="ready" if one.state in _UNLEASED else one.state, waiting_on=0)
        return one._replace(state=one.state.replace("delayed", "ready"))


def replay(entries: Iterable[JournalEvent], after: Mapping[str, Collection[str]] | None = None) -> Replay:
    """The messages there are after the entries; raises `IllegalEntry` at the first that is not legal."""
    return Replay(after=after).read(entries)
