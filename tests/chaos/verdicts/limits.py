"""Limits hold: of a queue's size, of attempts, of a life, and of a delay."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.facts import Delivery, Facts, Message
from tests.chaos.history import NEVER
from tests.chaos.verdicts.violation import Rules, Violation


def capacity(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """A queue holds no more than its limit, but for messages that came back: from a lease, or from the dead."""
    bounds = {(one.namespace, one.bound.queue): one.bound for one in facts.operations if one.bound is not None}
    back = _came_back(facts, rules)
    for one in facts.operations:
        bound = bounds.get((one.namespace, one.queue or ""))
        if one.verb != "look" or one.answer != "ok" or bound is None:
            continue
        extra = sum(start <= one.end for start in back[one.namespace, bound.queue])
        if one.value > bound.maxsize + extra:
            text = f"{bound.queue} holds {one.value} messages, limit {bound.maxsize}; {extra} may have come back"
            yield Violation("capacity", text, (), [one])


def _came_back(facts: Facts, rules: Rules) -> dict[tuple[str, str], list[float]]:
    """For each queue, from when on each lease or requeue may have given a message back."""
    back: dict[tuple[str, str], list[float]] = defaultdict(list)
    known: Counter[tuple[str, str]] = Counter()
    for message in facts.messages.values():
        place = message.operation.namespace, message.queue
        known[place] += 1
        for one in message.deliveries:
            ended = [s for s in message.settled if s.ending.token in (one.token, None) and s.may_be_done]
            times = [s.operation.start for s in ended if s.ending.action == "release"]
            expiry = one.operation.start + one.claim.timeout - rules.jumped_ahead
            if not any(s.done and s.operation.end < expiry for s in ended):
                times.append(expiry)
            back[place] += [min(times)] if times else []
    for place, claims in facts.lost_claims.items():
        back[place] += (one.start for one in claims if one.claim for _ in range(one.claim.limit))
    for place, requeues in facts.requeues.items():
        for requeue in requeues:
            count = requeue.value if requeue.answer == "ok" else known[place]
            back[place] += [requeue.start] * count
    return back


def attempts_and_times(facts: Facts, rules: Rules) -> Iterator[Violation]:
    for message in facts.messages.values():
        for one in message.deliveries:
            text = _beyond(message, one, facts, rules)
            if text:
                yield Violation("limits", f"{message.name} was delivered {text}", [message])
                break
        else:
            yield from _too_often(message, facts)


def _beyond(message: Message, one: Delivery, facts: Facts, rules: Rules) -> str | None:
    operation, put, handed = one.operation, message.put, one.handed
    if one.claim.most is not None and handed.tries > one.claim.most:
        return f"for the {handed.tries}th time, with a limit of {one.claim.most}"
    slack = rules.tolerance + rules.jumped_back
    requeued = facts.may_return(message, operation.end)  # which takes away a life that is over
    life = put.ttl if put.ttl is not None and message.confirmed and not requeued else NEVER
    if operation.start > message.operation.end + life + slack:
        return f"after its {life} s to live"
    took = operation.end - operation.start
    if handed.expires_at is not None and one.at is not None and handed.expires_at + slack < one.at - took:
        return "after its time to live, by the times of the store"
    if put.delay and operation.end + rules.jumped_ahead + rules.tolerance < message.operation.start + put.delay:
        return f"before its delay of {put.delay} s had passed"
    return None


def _too_often(message: Message, facts: Facts) -> Iterator[Violation]:
    """By the deliveries themselves, whatever the store says of their number: between two requeues, which give a fresh
    budget, there are no more than the limit."""
    mosts = [one.claim.most for one in message.deliveries]
    limit = max((most for most in mosts if most is not None), default=None)
    if limit is None or None in mosts or len(mosts) <= limit:
        return
    requeues = facts.requeues.get((message.operation.namespace, message.queue), ())
    ends = [0.0, *(one.end for one in requeues)]
    starts = [*(one.start for one in requeues), NEVER]
    for after, before in zip(ends, starts, strict=True):
        count = sum(one.operation.start > after and one.operation.end < before for one in message.deliveries)
        if count > limit:
            text = f"{message.name} was delivered {count} times, with a limit of {limit}"
            yield Violation("limits", text, [message])
            return
