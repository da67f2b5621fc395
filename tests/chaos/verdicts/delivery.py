"""Every message that was confirmed is delivered until it is acked, and then never again; nothing else is delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.facts import EFFECTS, WORKED, Facts, Message
from tests.chaos.history import NEVER, Operation
from tests.chaos.verdicts.violation import Rules, Violation

_EFFECTIVE = ("orders", WORKED)


def loss(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Confirmed, not there any more, and nobody can have acked it. A queue that drops says how many it dropped, and
    what a claim that consumes took is gone, also where nobody heard of it."""
    gone: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in facts.messages.values():
        if not message.confirmed or message.queue == WORKED:
            continue
        if not message.held and message.may_be_acked_at == NEVER:
            gone[message.operation.namespace, message.queue].append(message)
    for place, messages in gone.items():
        consumed = (one.claim.limit for one in facts.lost_claims.get(place, ()) if one.claim and one.claim.consume)
        excused = facts.final.dropped.get(place, 0) + sum(consumed)
        if len(messages) > excused:
            for message in messages[: len(messages) - excused]:
                yield Violation("loss", f"{message.name} was put and is gone", [message])


def ghosts(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """In the store although nobody put it, or although the put was refused, dropped or found a duplicate."""
    for name, namespace, operation in facts.strangers:
        if not _belongs_elsewhere(name, namespace):
            yield Violation("ghost", f"nobody put {name}", (), _some(operation))
    for message in facts.messages.values():
        if message.operation.answer == "refused" and message.arrived:
            yield Violation("ghost", f"{message.name} is there although its put was refused", [message])
        elif message.outcome in ("dropped", "duplicate") and message.arrived:
            kind = "dedupe" if message.outcome == "duplicate" else "ghost"
            yield Violation(kind, f"{message.name} is there although it was told {message.outcome}", [message])


def _some(operation: Operation | None) -> list[Operation]:
    return [] if operation is None else [operation]


def _belongs_elsewhere(name: str, namespace: str) -> bool:
    return "/" in name and name.split("/")[0] != namespace


def doubling(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Delivered or there again after an ack that was confirmed, acked twice, or stored twice."""
    for message in facts.messages.values():
        ids = {one.handed.id for one in message.deliveries} | {one.id for one in message.held}
        if message.confirmed and message.id is not None:
            ids.add(message.id)
        if len(ids) > 1:
            yield Violation("doubling", f"{message.name} was stored under {len(ids)} ids", [message])
        if message.held and message.acked_at < NEVER:
            yield Violation("doubling", f"{message.name} was acked and is there again", [message])
        again = [one for one in message.deliveries if one.operation.start > message.acked_at]
        if again:
            yield Violation("doubling", f"{message.name} was delivered again after its ack was confirmed", [message])
        consumed = sum(one.claim.consume for one in message.deliveries)
        if len(message.acks) + consumed > 1:
            yield Violation("doubling", f"{message.name} was acked {len(message.acks) + consumed} times", [message])
        left = message.left_at
        for one in message.deliveries if left < message.acked_at else ():
            if one.operation.start > left and not facts.may_return(message, one.operation.end):
                text = f"{message.name} was delivered although it had left delivery and nobody brought it back"
                yield Violation("doubling", text, [message])
                break


def isolation(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Nothing is seen of another namespace, nor in a queue it was not put into."""
    for name, namespace, operation in facts.strangers:
        if _belongs_elsewhere(name, namespace):
            yield Violation("isolation", f"{name} was seen in namespace {namespace}", (), _some(operation))
    for message in facts.messages.values():
        namespace, bound = message.operation.namespace, message.operation.bound
        allowed = {message.put.queue} | ({bound.spill} if bound and bound.spill else set())
        seen = [(one.operation.namespace, one.claim.queue, one.handed.queue) for one in message.deliveries]
        seen += [(one.namespace, one.queue, one.queue) for one in message.held]
        for where, *queues in seen:
            if where != namespace or not allowed.issuperset(queues):
                text = f"{message.name} was put into {namespace}/{message.put.queue} and seen in {where}/{queues[0]}"
                yield Violation("isolation", text, [message])
                break


def effects(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """What a handler does for a key is done once, and done when the message of the key is gone."""
    for name, ids in facts.effects.items():
        if len(ids) > 1:
            runs = [one for one in facts.operations if any(put.name == name for put in one.puts)]
            yield Violation("effect", f"{name} happened {len(ids)} times", (), runs)
    for message in facts.messages.values():
        if message.confirmed and message.queue in _EFFECTIVE and message.put.dedupe_key and not message.held:
            effect = effect_of(message.operation.namespace, message.put.dedupe_key)
            if effect not in facts.effects:
                yield Violation("effect", f"{message.name} is gone, and {effect} never happened", [message])


def effect_of(namespace: str, key: str) -> str:
    """The name of what is done for a key."""
    return f"{namespace}/{EFFECTS}/{key}"
