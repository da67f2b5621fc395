"""There is one live message of a dedupe key, and a duplicate is told which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.facts import WORKED, Facts, Message
from tests.chaos.history import Held
from tests.chaos.verdicts.violation import Rules, Violation

_LIVE = ("ready", "delayed", "inflight", "waiting", "blocked")


def dedupe(facts: Facts, rules: Rules) -> Iterator[Violation]:
    of_key: dict[tuple[str, str, str], list[Message]] = defaultdict(list)
    for message in facts.messages.values():
        if message.put.dedupe_key is None or message.put.queue == WORKED:
            continue
        if message.confirmed:
            of_key[message.operation.namespace, message.put.queue, message.put.dedupe_key].append(message)
        elif message.outcome == "duplicate":
            yield from _named_the_live_one(message, facts)
    for messages in of_key.values():
        yield from _one_alive(messages)
    yield from _one_held(facts.final.held)


def _one_alive(messages: list[Message]) -> Iterator[Violation]:
    """Of two that were stored, one must have left before the other was confirmed."""
    ordered = sorted(messages, key=lambda one: one.operation.start)
    lasting = ordered[0]
    for message in ordered[1:]:
        if lasting.may_leave_at > message.operation.end and message.may_leave_at > lasting.operation.end:
            text = f"{lasting.name} and {message.name} were live at once with the key {message.put.dedupe_key}"
            yield Violation("dedupe", text, [lasting, message], until=message.operation.end)
        if message.may_leave_at > lasting.may_leave_at:
            lasting = message


def _named_the_live_one(message: Message, facts: Facts) -> Iterator[Violation]:
    operation, put = message.operation, message.put
    name = operation.stored[operation.puts.index(put)].existing
    existing = facts.messages.get(name or "")
    if existing is None or existing.put.dedupe_key != put.dedupe_key or existing.put.queue != put.queue:
        yield _false_duplicate(message, f"{name}, which does not have its key", existing)
    elif existing.operation.start > operation.end:
        yield _false_duplicate(message, f"{name}, which was put later", existing)
    elif existing.left_at < operation.start and not (
        existing.acked_at >= operation.start and facts.may_return(existing, operation.end)
    ):
        yield _false_duplicate(message, f"{name}, which was gone", existing)


def _false_duplicate(message: Message, of: str, existing: Message | None) -> Violation:
    messages = [message] if existing is None else [message, existing]
    text = f"{message.name} was told to be a duplicate of {of}"
    return Violation("dedupe", text, messages, until=message.operation.end)


def _one_held(held: list[Held]) -> Iterator[Violation]:
    live: dict[tuple[str, str, str], list[Held]] = defaultdict(list)
    for one in held:
        if one.dedupe_key is not None and one.state in _LIVE:
            live[one.namespace, one.queue, one.dedupe_key].append(one)
    for (_, queue, key), ones in live.items():
        if len(ones) > 1:
            yield Violation("dedupe", f"{len(ones)} live messages of {queue} have the key {key}", (), ones)
