"""Messages of a key come one at a time and in the order they were put; what comes after another waits for its ack."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.chaos.facts import WORKED, Delivery, Facts, Message
from tests.chaos.history import NEVER
from tests.chaos.verdicts.violation import Rules, Violation

_Valued = tuple[float, Message]


class Before:
    """Of messages with a time, those two with the greatest values among the ones before a given time."""

    def __init__(self, things: Iterable[tuple[float, float, Message]]) -> None:
        ordered = sorted(things, key=lambda one: one[0])
        self._times = [time for time, _, _ in ordered]
        self._greatest: list[tuple[_Valued, _Valued | None]] = []
        first: _Valued | None = None
        second: _Valued | None = None
        for _, value, message in ordered:
            if first is None or first[1] is message:
                first = (value, message)
            elif value > first[0]:
                first, second = (value, message), first
            elif second is None or value > second[0]:
                second = (value, message)
            self._greatest.append((first, second))

    def greatest(self, time: float, other_than: Message | None = None) -> _Valued | None:
        at = bisect_left(self._times, time)
        if not at:
            return None
        first, second = self._greatest[at - 1]
        return second if first[1] is other_than else first


def keys(facts: Facts, rules: Rules) -> Iterator[Violation]:
    of_key: dict[tuple[str, str, str], list[Message]] = defaultdict(list)
    for message in facts.messages.values():
        if message.put.ordering_key is not None and not message.put.after and message.queue != WORKED:
            of_key[message.operation.namespace, message.queue, message.put.ordering_key].append(message)
    for (_, _, key), messages in of_key.items():
        yield from _put_order(key, messages)
        yield from _one_at_a_time(key, messages)


def _put_order(key: str, messages: Sequence[Message]) -> Iterator[Violation]:
    """A message that was put before another began to be put must have left when the other is first delivered."""
    earlier = Before((one.operation.end, one.may_leave_at, one) for one in messages if one.confirmed)
    for late in messages:
        if not late.deliveries:
            continue
        delivered = min(one.operation.end for one in late.deliveries)
        found = earlier.greatest(late.operation.start)
        if found is not None and found[0] > delivered:
            yield _overtaken(key, late, found[1], delivered)
            continue
        for one in messages:  # those of one batch are in the order of the batch
            if one.operation is late.operation and one.may_leave_at > delivered and _index(one) < _index(late):
                if one.confirmed:
                    yield _overtaken(key, late, one, delivered)
                break


def _index(message: Message) -> int:
    return message.operation.puts.index(message.put)


def _overtaken(key: str, late: Message, early: Message, delivered: float) -> Violation:
    text = f"of key {key}, {late.name} was delivered while {early.name}, put before it, was not done"
    return Violation("order", text, [early, late], until=delivered)


def _one_at_a_time(key: str, messages: Sequence[Message]) -> Iterator[Violation]:
    """What was delivered holds its key until it leaves, also when its lease runs out."""
    delivered = Before((one.operation.end, m.may_leave_at, m) for m in messages for one in m.deliveries)
    for message in messages:
        for one in message.deliveries:
            found = delivered.greatest(one.operation.start, other_than=message)
            if found is not None and found[0] > one.operation.end:
                text = f"of key {key}, {message.name} was delivered while {found[1].name} was in flight"
                yield Violation("order", text, [found[1], message], until=one.operation.end)
                break


def fifo(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Plain messages are first delivered in the order they were put. The first token tells that a delivery is the
    first, also where others were killed before they could say what they were handed."""
    if rules.fifo is None:
        return
    of_queue: dict[tuple[str, str], list[tuple[Message, Delivery]]] = defaultdict(list)
    for message in facts.messages.values():
        if message.confirmed and message.put == (message.put.queue, message.name, None, None, (), 0.0, None, 0):
            firsts = [one for one in message.deliveries if one.token == 1]
            if firsts:
                of_queue[message.operation.namespace, message.queue].append((message, firsts[0]))
    for pairs in of_queue.values():
        earlier = Before((m.operation.end + rules.fifo, first.operation.start, m) for m, first in pairs)
        for message, first in pairs:
            found = earlier.greatest(message.operation.start)
            if found is not None and found[0] > first.operation.end:
                text = f"{message.name} was delivered before {found[1].name}, which was put before it"
                yield Violation("fifo", text, [found[1], message])


def dependencies(facts: Facts, rules: Rules) -> Iterator[Violation]:
    """Nothing is delivered before what it comes after was acked, and nothing waits for what was acked."""
    for message in facts.messages.values():
        upstream = [facts.messages[name] for name in message.put.after if name in facts.messages]
        first = min((one.operation.end for one in message.deliveries), default=NEVER)
        for above in upstream:
            if first < above.may_be_acked_at:
                text = f"{message.name} was delivered before {above.name} was acked"
                yield Violation("dependency", text, [above, message], until=first)
                break
        waits = any(one.state == "waiting" for one in message.held)
        if waits and upstream and all(above.acked_at < NEVER for above in upstream):
            text = f"{message.name} waits although all it comes after was acked"
            yield Violation("dependency", text, [message, *upstream])
