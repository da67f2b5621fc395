"""Tells several stores the same, on one clock, and compares what they answer and what they show.

    stores = {"memory": MemoryQueueStore, "mine": lambda **options: MyStore(fresh_path(), **options)}
    found = differ(stores, seed=7, length=120)
    assert found is None, found

Time passes unobserved: nobody claims between two steps of the clock, so what a store makes of timers that have passed,
when it is asked something else, must be the same everywhere. An opener is called with `clock=` for every round and must
open a place with nothing in it. `Disagreement` prints the shortest sequence of operations that was found to show it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from localqueue.errors import QueueError
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import Changes, Lease, LeaseRequest, QueueStore, RecordWrite, Transition
from localqueue.testing.harness import FakeClock
from localqueue.testing.picture import (
    differences,
    messages_of_queue,
    picture_of_queue,
    picture_of_run,
    plain,
)
from localqueue.testing.rounds import (
    CURRENT,
    KIND,
    QUEUES,
    RUNS,
    STALE,
    TOPIC,
    WORKERS,
    Operation,
    Situation,
    Teller,
)

Openers = Mapping[str, Callable[..., QueueStore]]

#: Everything is looked at in every way after each so many operations, and after the last. What is cheap, after each.
LOOK_CLOSELY_EVERY = 12

BEGAN = 1_700_000_000.0


@dataclasses.dataclass
class Disagreement:
    """The operations that were told, and after the last of them how each store differs from the first of the most."""

    operations: list[Operation]
    most: tuple[str, ...]
    odd: dict[str, list[str]]

    def __str__(self) -> str:
        told = [f"  {n}. {operation}" for n, operation in enumerate(self.operations, 1)]
        differs = [f"  {name}: {line}" for name, lines in self.odd.items() for line in lines[:8]]
        return "\n".join([f"{', '.join(self.odd)} against {', '.join(self.most)}:", *told, "  differs", *differs])


def differ(openers: Openers, *, seed: int | str, length: int = 120) -> Disagreement | None:
    """One round of random operations; the shortest disagreement that could be made of the first one."""
    found = play(openers, Teller(seed), length)
    return None if found is None else shrink(openers, found)


def play(openers: Openers, told: Teller | Sequence[Operation], length: int = 0) -> Disagreement | None:
    """Tell new stores the operations until they disagree. Given ones are looked at closely after each."""
    clock = FakeClock(BEGAN)
    with ExitStack() as opened:
        sides = [Side(name, _entered(opened, open_store(clock=clock))) for name, open_store in openers.items()]
        situation = Situation()
        done: list[Operation] = []
        length = length or len(told)  # type: ignore[arg-type]
        for n in range(1, length + 1):
            operation = told.next(situation) if isinstance(told, Teller) else told[n - 1]
            done.append(operation)
            if operation.verb == "advance":
                clock.advance(*operation.arguments)
            closely = n == length or n % LOOK_CLOSELY_EVERY == 0 or not isinstance(told, Teller)
            found = _compare({side.name: side.tell(operation, closely=closely) for side in sides})
            if found is None and n == length:
                found = _compare({side.name: {"problems": len(side.store.check().problems)} for side in sides})
            if found is not None:
                return Disagreement(done, *found)
            sides[0].describe(situation)
        return None


def _entered(opened: ExitStack, store: Any) -> Any:
    opened.callback(store.close)
    return store


def _compare(seen: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]] | None:
    """Those that agree with the most, and where the others differ; None when all agree."""
    groups: list[list[str]] = []
    for name, one in seen.items():
        for group in groups:
            if seen[group[0]] == one:
                group.append(name)
                break
        else:
            groups.append([name])
    if len(groups) == 1:
        return None
    most = max(groups, key=len)
    return tuple(most), {name: differences(seen[most[0]], seen[name]) for name in seen if name not in most}


class Side:
    """One store, and by what ids and versions it knows what the operations call by labels."""

    def __init__(self, name: str, store: QueueStore) -> None:
        self.name = name
        self.store = store
        self._ids: dict[str, str] = {}
        self._labels: dict[str | int, str] = {}
        self._versions: dict[str, list[int]] = {}
        self._last_event = 0
        self._told: dict[str, Any] = {}

    def tell(self, operation: Operation, *, closely: bool) -> dict[str, Any]:
        """What the store answers, what it says it changed, and what it shows then."""
        with self.store.observe() as transitions:
            answer = self._answer(operation)
        self._told = {
            "answer": answer,
            "transitions": self._by_message(transitions),
            "journal": self._journal(),
            **(self._everything() if closely else self._outline()),
        }
        return self._told

    def describe(self, situation: Situation) -> None:
        """What the next operation can be made up from."""
        situation.messages = {queue: self._told["queues"][queue]["messages"] for queue in QUEUES}
        situation.last_event = self._last_event
        if "subscriptions" in self._told:
            situation.subscriptions = self._told["subscriptions"]["version"]
        answer = self._told["answer"]
        leased = answer.get("leased", ()) if isinstance(answer, dict) else ()
        situation.leases += [Lease(one["queue"], one["id"], one["attempts"]) for one in leased]

    # telling

    def _answer(self, operation: Operation) -> Any:
        if operation.verb == "advance":
            return None
        arguments = [self._translated(one) for one in operation.arguments]
        options = {name: self._translated(one) for name, one in operation.options.items()}
        try:
            result = getattr(self.store, operation.verb)(*arguments, **options)
        except (QueueError, ValueError) as refusal:
            return f"{type(refusal).__name__}"
        if operation.verb in ("put_one", "put_batch"):
            ids, at = ([result[0]], result[1]) if operation.verb == "put_one" else result
            for label, message_id in zip(operation.labels, ids, strict=True):
                self._know(label, message_id)
            return at
        if operation.verb == "lease":
            return {"leased": plain(result, self._labels)}
        if operation.verb == "commit":
            names = ("enqueued", "settled", "leased")
            if arguments[0].records or result.leased:  # a lease shows the record of its message
                self._note_versions()
            return {name: plain(getattr(result, name), self._labels) for name in names}
        return plain(result, self._labels)

    def _translated(self, value: Any) -> Any:
        """With the store's own ids and versions in place of labels."""
        if isinstance(value, str):
            return self._id_of(value) if value.startswith("#") else value
        if isinstance(value, RecordWrite):
            return value._replace(expect=self._expected(value))
        if isinstance(value, Changes):
            parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
            return Changes(**{name: self._translated(part) for name, part in parts.items()})
        if isinstance(value, LeaseRequest) or value is None:
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._translated(one) for one in value))
        if isinstance(value, list | tuple):
            return type(value)(self._translated(one) for one in value)
        if isinstance(value, dict):
            return {key: self._translated(one) for key, one in value.items()}
        return value

    def _id_of(self, label: str) -> str:
        if label not in self._ids:
            self._know(label, self.store.mint()[0])
        return self._ids[label]

    def _know(self, label: str, message_id: str) -> None:
        self._ids[label] = message_id
        self._labels[message_id] = label

    def _expected(self, write: RecordWrite) -> int | None:
        known = self._versions.get(write.key, [])
        if write.expect == CURRENT:
            return known[-1] if known else 0
        if write.expect == STALE:
            return known[-2] if len(known) > 1 else 1
        return write.expect

    # looking

    def _outline(self) -> dict[str, Any]:
        """What is seen at little cost."""
        store, labels = self.store, self._labels
        return {
            "queues": {
                queue: {
                    "stats": plain(store.stats(queue).as_dict(), {}),
                    "messages": messages_of_queue(store.scan(queue), labels),
                }
                for queue in QUEUES
            },
            "runs": {run: _run(store, run) for run in RUNS},
        }

    def _everything(self) -> dict[str, Any]:
        store, labels = self.store, self._labels
        return {
            "queues": {queue: picture_of_queue(store, labels, queue, WORKERS) for queue in QUEUES},
            "records": self._records(),
            "journalled": [store.journal_enabled(), *store.journal_span()],
            "names": sorted(name for name in store.queues() if store.stats(name).total),
            "runs": {"all": store.runs(), **{run: picture_of_run(store, labels, run) for run in RUNS}},
            "subscriptions": plain(store.subscriptions(TOPIC)._asdict(), labels),
        }

    def _records(self) -> list[Any]:
        self._note_versions()
        return [plain(record._asdict(), self._labels) for record in self.store.records(KIND)]

    def _note_versions(self) -> None:
        for record in self.store.records(KIND):
            known = self._versions.setdefault(record.key, [])
            if record.version not in self._labels:
                known.append(record.version)
                self._labels[record.version] = f"version {len(known)} of {record.key}"

    def _journal(self) -> dict[str, Any]:
        """What is new in it, by message: the order of different messages of one commit is not promised."""
        entries = self.store.events(after=self._last_event)
        numbers = [entry.seq for entry in entries]
        self._last_event = max([self._last_event, *numbers])
        return {"numbers": numbers, **self._by_message([entry._replace(seq=0) for entry in entries])}

    def _by_message(self, told: Sequence[Transition] | Sequence[JournalEvent]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for one in plain([one._asdict() for one in told], self._labels):
            found.setdefault(one.get("id", one.get("message_id")), []).append(one)
        return found


def _run(store: QueueStore, run_id: str) -> dict[str, Any] | None:
    run = store.run(run_id)
    return None if run is None else run.as_dict()


def shrink(openers: Openers, found: Disagreement) -> Disagreement:
    """A shorter sequence of simpler operations over which one of the odd stores and one of the others disagree."""
    pair = {name: openers[name] for name in (found.most[0], next(iter(found.odd)))}
    best = play(pair, found.operations)
    if best is None:  # these two do not disagree by themselves
        return found
    best = _simplified(pair, _shortened(pair, best))
    return play(openers, best.operations) or best


def _shortened(pair: Openers, best: Disagreement) -> Disagreement:
    """Without the operations that do not matter, tried in parts that get smaller."""
    size = max(1, len(best.operations) // 2)
    while True:
        before = len(best.operations)
        start = 0
        while start < len(best.operations):
            less = best.operations[:start] + best.operations[start + size :]
            if (again := _again(pair, best, less)) is not None:
                best = again
            else:
                start += size
        if size > 1:
            size //= 2
        elif len(best.operations) == before:
            return best


def _simplified(pair: Openers, best: Disagreement) -> Disagreement:
    """With as few options as do it."""
    n = 0
    while n < len(best.operations):
        for simpler in _simpler(best.operations[n]):
            again = _again(pair, best, [*best.operations[:n], simpler, *best.operations[n + 1 :]])
            if again is not None and len(again.operations) == len(best.operations):
                best = again
                break
        else:
            n += 1
    return best


def _again(pair: Openers, best: Disagreement, operations: list[Operation]) -> Disagreement | None:
    """The same disagreement, if these operations lead to it as well."""
    again = play(pair, operations) if operations else None
    return again if again is not None and _places(again) & _places(best) else None


def _places(found: Disagreement) -> set[str]:
    """Where in what the stores answer and show they differ, without names and numbers."""
    lines = (line for lines in found.odd.values() for line in lines)
    return {re.sub(r"\d+|\.(one|two|spill)\b", "", line.partition(":")[0]) for line in lines}


def _simpler(operation: Operation) -> Iterator[Operation]:
    if operation.labels:
        return
    for n, argument in enumerate(operation.arguments):
        for simpler in _simpler_value(argument):
            yield operation._replace(arguments=(*operation.arguments[:n], simpler, *operation.arguments[n + 1 :]))


def _simpler_value(value: Any) -> Iterator[Any]:
    if isinstance(value, Changes):
        empty = Changes()
        for part in dataclasses.fields(value):
            held = getattr(value, part.name)
            if held != getattr(empty, part.name) and part.name != "strict":
                yield dataclasses.replace(value, **{part.name: getattr(empty, part.name)})
            for simpler in _simpler_value(held):
                yield dataclasses.replace(value, **{part.name: simpler})
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield value[:n] + value[n + 1 :]
            for simpler in _simpler_value(one):
                yield [*value[:n], simpler, *value[n + 1 :]]
    elif isinstance(value, dict):
        for key in value:
            yield {name: one for name, one in value.items() if name != key}
    elif isinstance(value, tuple) and hasattr(value, "_field_defaults"):
        for name, default in value._field_defaults.items():
            if getattr(value, name) != default:
                yield value._replace(**{name: default})
