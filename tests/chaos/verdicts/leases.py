"""A lease is its holder's alone until it ends, and only the token of the last one counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.facts import Delivery, Facts, Message
from tests.chaos.verdicts.violation import Rules, Violation


def fencing(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Tokens only grow, and nothing is settled or renewed with one that is not current."""
    for message in facts.messages.values():
        text = _token_misuse(message)
        if text:
            yield Violation("fencing", f"{message.name}: {text}", [message])


def _token_misuse(message: Message) -> str | None:
    deliveries = sorted(message.deliveries, key=lambda one: one.operation.end)
    tokens = [one.token for one in deliveries]
    if len(set(tokens)) < len(tokens):
        return "the same token was handed out twice"
    for one in deliveries:
        if any(later.operation.start > one.operation.end and later.token < one.token for later in deliveries):
            return "a later lease has a smaller token"
    done = [one for one in message.settled if one.done and one.ending.token is not None]
    used = [one.ending.token for one in done]
    if len(set(used)) < len(used):
        return "two settles with the same token were accepted"
    accepted = [(one.operation, one.ending.token or 0, one.ending.action) for one in done]
    accepted += [(one.operation, one.token, "renew") for one in message.renewals]
    for operation, token, action in accepted:
        if any(one.token > token and one.operation.end < operation.start for one in deliveries):
            return f"{action} with token {token} was accepted although a later lease was held"
        ends = (one for one in done if one.ending.token == token and one.operation.end < operation.start)
        if action == "renew" and any(ends):
            return f"a lease was renewed with token {token} after it had been settled"
    return None


def stolen(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Handed to somebody else before the lease had run out, with nobody having given it back."""
    for message in facts.messages.values():
        deliveries = sorted(message.deliveries, key=lambda one: (one.token, one.operation.end))
        for held, taken in pairwise(deliveries):
            if not _was_given_back(message, held, taken) and _too_early(message, held, taken, rules):
                text = f"{message.name} was handed out with token {taken.token} while token {held.token} was leased"
                yield Violation("stolen", text, [message], until=taken.operation.end)
                break


def _was_given_back(message: Message, held: Delivery, taken: Delivery) -> bool:
    """Whether the lease may have ended by a settle; one without a token ends whatever lease there is."""
    return held.claim.consume or any(
        one.may_be_done and one.ending.token in (held.token, None) and one.operation.start < taken.operation.end
        for one in message.settled
    )


def _too_early(message: Message, held: Delivery, taken: Delivery, rules: Rules) -> bool:
    """By the times that the store told, and by the clock on the wall."""
    untils = [one.until for one in message.renewals if one.token == held.token and one.until is not None]
    until = max((*untils, held.handed.until or 0.0))
    back = rules.jumped_back + rules.tolerance
    if taken.at is not None and taken.at + back < until:
        return True
    return taken.operation.end + rules.jumped_ahead + rules.tolerance < held.operation.start + held.claim.timeout
