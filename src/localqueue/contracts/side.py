"""One of the stores that are told the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from localqueue.contracts.operation import Operation
from localqueue.contracts.picture import messages_of_queue, picture_of_queue, picture_of_run, plain
from localqueue.contracts.teller import CURRENT, KIND, QUEUES, RUNS, STALE, TOPIC, WORKERS, Situation
from localqueue.errors import QueueError
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import Changes, Lease, LeaseRequest, QueueStore, RecordWrite, Transition


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
        except QueueError as refusal:
            return type(refusal).__name__
        except Exception as error:  # nothing that is told is wrong in itself: no answer that others can share
            return f"{self.name} raised {error!r}"
        if operation.verb in ("put_one", "put_batch"):
            ids, at = ([result[0]], result[1]) if operation.verb == "put_one" else result
            for label, message_id in zip(operation.labels, ids, strict=True):
                self._know(label, message_id)
            if operation.options.get("records"):
                self._note_versions()
            return at
        if operation.verb == "put_pages":
            self._know_pages()
            if operation.options["records"]:
                self._note_versions()
        if operation.verb == "lease":
            return {"leased": plain(result, self._labels)}
        if operation.verb == "commit":
            names = ("enqueued", "settled", "leased", "versions")
            if arguments[0].records:
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

    def _know_pages(self) -> None:
        """Those of pages tell nobody their ids: they are found by their payloads."""
        for queue in QUEUES:
            for message in self.store.scan(queue):
                if message.id not in self._labels:
                    self._know(str(message.payload)[1:], message.id)

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
