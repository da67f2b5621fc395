"""A commit happens whole or not at all, and fails with an error of this package."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.facts import EFFECTS, WORKED, Facts, Message
from tests.chaos.history import Operation
from tests.chaos.verdicts.violation import Rules, Violation

#: The verb of a commit that puts one copy for each subscriber.
PUBLISH = "publish"


def torn(facts: Facts, rules: Rules) -> Iterator[Violation]:
    for operation in facts.operations:
        if operation.verb != PUBLISH:
            yield from _parts("torn", operation, facts, rules)


def fan_out(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Each subscriber gets exactly one copy, or nobody gets one."""
    for operation in facts.operations:
        if operation.verb == PUBLISH:
            yield from _parts("fan-out", operation, facts, rules)


def _parts(kind: str, operation: Operation, facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Of what a commit puts, writes and settles, all is there or nothing."""
    messages = _that_must_show(operation, facts, rules)
    there = {message.name: message.arrived for message in messages}
    if operation.record is not None:
        there["its record"] = (operation.namespace, operation.record) in facts.final.records
    if len(set(there.values())) > 1:
        missing = [name for name, is_there in there.items() if not is_there]
        evidence = [operation, *(f"missing: {name}" for name in missing[:6])]
        yield Violation(kind, f"of {operation}, {len(missing)} of {len(there)} parts are missing", (), evidence)
    elif there and operation.endings and operation.answer == "unknown":
        yield from _settles(kind, operation, facts, happened=all(there.values()))


def _that_must_show(operation: Operation, facts: Facts, rules: Rules) -> list[Message]:
    """The messages of a commit that are seen if it happened: not those that may be duplicates, dropped or consumed."""
    if operation.bound is not None:
        return []
    found = [facts.messages[put.name] for put in operation.puts if put.queue != EFFECTS and put.dedupe_key is None]
    places = {(operation.namespace, message.queue) for message in found}
    unseen = {place for place in places if any(one.claim and one.claim.consume for one in facts.lost_claims[place])}
    return [m for m in found if (operation.namespace, m.queue) not in unseen and m.queue != WORKED]


def _settles(kind: str, operation: Operation, facts: Facts, *, happened: bool) -> Iterator[Violation]:
    """A strict commit that was not confirmed: its settles and the rest of it agree."""
    for ending in operation.endings:
        message = facts.messages.get(ending.name)
        if message is None or ending.action != "ack":
            continue
        later = any(one.token > (ending.token or 0) for one in message.deliveries)
        if happened and (message.held or later):
            text = f"{operation} happened, but {message.name} was not acked by it"
            yield Violation(kind, text, [message], [operation])
        others = [one for one in message.settled if one.operation is not operation and one.ending.action == "ack"]
        taken = any(one.may_be_done for one in others) or facts.may_vanish(message)
        if not happened and not message.held and not taken:
            text = f"{operation} did not happen, but {message.name}, which it was to ack, is gone"
            yield Violation(kind, text, [message], [operation])


def foreign(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Whatever fails says so in the package's own words."""
    for operation in facts.operations:
        if operation.error is not None and operation.error.startswith("!"):
            yield Violation("foreign", f"{operation} failed with {operation.error[1:]}", (), [operation])


def integrity(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """The store finds nothing wrong with itself."""
    for problem in facts.final.problems:
        yield Violation("integrity", problem)


def journal(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """What the journal tells can have happened, and is what the store holds."""
    for text, *entries in facts.final.journal:
        yield Violation("journal", text, (), entries)
