"""What a history says about each message: who put it, who was handed it, and how each delivery ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from tests.chaos.history import NEVER, Claim, Ending, Final, Handed, Held, Operation, Put

#: Done by workers: a handler's effect is a message here, whose name is not that of a put but of what was done.
EFFECTS = "effects"

#: Workers lease from here by themselves and write no history of it: what is here is judged by its effects.
WORKED = "jobs"

_LEAVES = ("ack", "dead-letter", "cancel")


@dataclass(slots=True)
class Delivery:
    """A message in somebody's hands. `at` is the store's time of the claim, as far as the lease tells: a store renews
    what was claimed by a call that took long, so the claim may have been earlier, by no more than that."""

    operation: Operation
    handed: Handed
    claim: Claim

    @property
    def token(self) -> int:
        return self.handed.token

    @property
    def at(self) -> float | None:
        return None if self.handed.until is None else self.handed.until - self.claim.timeout


@dataclass(slots=True)
class Settled:
    """What was asked to end a delivery; `done` is None where nobody knows."""

    operation: Operation
    ending: Ending
    done: bool | None

    @property
    def may_be_done(self) -> bool:
        return self.done is not False


@dataclass(slots=True)
class Renewal:
    operation: Operation
    token: int
    until: float | None


@dataclass
class Message:
    """One message that somebody asked to put, in the order of what happened to it."""

    operation: Operation
    put: Put
    outcome: str | None
    id: str | None
    deliveries: list[Delivery] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    queue: str = ""

    @property
    def name(self) -> str:
        return self.put.name

    @property
    def confirmed(self) -> bool:
        """Whether a client was told that this is in the store."""
        return self.outcome in ("stored", "diverted")

    @property
    def arrived(self) -> bool:
        """Whether anybody saw it in the store."""
        return bool(self.deliveries or self.held)

    @cached_property
    def acks(self) -> list[Settled]:
        return [one for one in self.settled if one.ending.action == "ack" and one.done]

    @cached_property
    def acked_at(self) -> float:
        """When it was surely acked: nobody may be handed it any more."""
        consumed = (one.operation.end for one in self.deliveries if one.claim.consume)
        return min((*(one.operation.end for one in self.acks), *consumed), default=NEVER)

    @cached_property
    def may_be_acked_at(self) -> float:
        """From when on it may have been acked."""
        acks = (s.operation.start for s in self.settled if s.ending.action == "ack" and s.may_be_done)
        consumed = (one.operation.start for one in self.deliveries if one.claim.consume)
        return min((*acks, *consumed), default=NEVER)

    @cached_property
    def may_leave_at(self) -> float:
        """From when on it may not be in delivery any more, whatever took it out."""
        times = [self.may_be_acked_at]
        for one in self.settled:
            ending = one.ending
            if one.may_be_done and (ending.action in _LEAVES or ending.most is not None):
                times.append(one.operation.start)
        times += (one.operation.start for one in self.deliveries if one.claim.most is not None)
        if self.put.ttl is not None:
            times.append(self.operation.start + self.put.ttl)
        return min(times)

    @cached_property
    def left_at(self) -> float:
        """When it had surely left delivery, unless an operator brought it back."""
        times = (s.operation.end for s in self.settled if s.done and s.ending.action in _LEAVES)
        return min((self.acked_at, *times))


class Facts:
    """A history by message. Effects have no put of their own and are kept apart, as is what nobody put."""

    def __init__(self, operations: Iterable[Operation], final: Final) -> None:
        self.operations = sorted(operations, key=lambda one: one.start)
        self.final = final
        self.messages: dict[str, Message] = {}
        self.effects: dict[str, set[str]] = defaultdict(set)  # the ids under which an effect was seen
        self.strangers: list[tuple[str, str, Operation | None]] = []  # name, namespace, who was handed it
        self.requeues: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        self.lost_claims: dict[tuple[str, str], list[Operation]] = defaultdict(list)  # nobody knows what they took
        for one in self.operations:
            self._put(one)
        for one in self.operations:
            self._deliver(one)
        for one in self.operations:
            self._settle(one)
        for held in final.held:
            self._hold(held)

    def _put(self, one: Operation) -> None:
        stored = one.stored if one.answer == "ok" else ()
        for n, put in enumerate(one.puts):
            if put.queue == EFFECTS:
                continue
            outcome, id_ = (stored[n].outcome, stored[n].id) if n < len(stored) else (None, None)
            spill = one.bound.spill if one.bound is not None and outcome == "diverted" else None
            self.messages[put.name] = Message(one, put, outcome, id_, queue=spill or put.queue)

    def _deliver(self, one: Operation) -> None:
        if one.claim is None:
            if one.verb == "requeue" and one.answer != "refused" and one.value != 0:
                self.requeues[one.namespace, one.queue or ""].append(one)
            return
        if one.answer == "unknown":
            self.lost_claims[one.namespace, one.claim.queue].append(one)
        for handed in one.handed:
            if one.claim.queue == EFFECTS:
                self.effects[handed.name].add(handed.id)
            elif (message := self.messages.get(handed.name)) is not None:
                message.deliveries.append(Delivery(one, handed, one.claim))
            else:
                self.strangers.append((handed.name, one.namespace, one))

    def _settle(self, one: Operation) -> None:
        for n, ending in enumerate(one.endings):
            message = self.messages.get(ending.name)
            if message is None:
                continue
            if one.verb == "renew":
                if one.answer == "ok" and one.value[n] is not None:
                    message.renewals.append(Renewal(one, ending.token or 0, one.value[n]))
                continue
            done = {"ok": None, "refused": False, "unknown": None}[one.answer]
            if one.answer == "ok":
                done = one.ended[n]
            message.settled.append(Settled(one, ending, done))

    def _hold(self, held: Held) -> None:
        if held.queue == EFFECTS:
            self.effects[held.name].add(held.id)
        elif (message := self.messages.get(held.name)) is not None:
            message.held.append(held)
        else:
            self.strangers.append((held.name, held.namespace, None))

    def may_vanish(self, message: Message) -> bool:
        """Whether a message may be gone without an ack: its queue drops some, or a claim consumed it."""
        place = message.operation.namespace, message.queue
        consumed = (one.claim for one in (*message.deliveries, *self.lost_claims.get(place, ())))
        return self.final.dropped.get(place, 0) > 0 or any(claim and claim.consume for claim in consumed)

    def may_return(self, message: Message, before: float) -> bool:
        """Whether an operator may have brought a message back to delivery by then."""
        requeues = self.requeues.get((message.operation.namespace, message.queue), ())
        return any(one.start < before for one in requeues)
