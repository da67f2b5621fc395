"""Makes up operations: what producers, workers and operators may ask of a store.

Each is made from what the stores showed last, so that most of them hit something, and from a seed, so that a round can
be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from localqueue.contracts.operation import Operation
from localqueue.stores.port import (
    Changes,
    Edge,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    RecordWrite,
    Settle,
)

QUEUES = ("one", "two", "spill")
RUNS = ("r", "s", "t")
WORKERS = ("v", "w")
TOPIC = "news"
KIND = "ledger"
RECORDS = ("one:d", "one:e", "two:d", "other")

#: What a write expects of a record: the version it is in, or one that it had before.
CURRENT, STALE = -1, -2

_ENDED = ("dead", "expired", "cancelled")
_DELAYS = (0.0, 0.0, 1.0, 2.0, 5.0)
_TIMEOUTS = (1.0, 2.0, 5.0, 10.0)
_ATTEMPTS = (None, 1, 2, 3)
_OVERFLOWS = ("reject", "drop-newest", "drop-oldest", "overflow-queue")


@dataclass
class Situation:
    """What is known when the next operation is made up: messages as last seen by queue, and every lease there was."""

    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    subscriptions: int = 0
    last_event: int = 0

    def labels(self, *states: str) -> list[tuple[str, str]]:
        """The queue and the label of each message, of these states if any are given."""
        found = ((queue, one) for queue, all_of_it in self.messages.items() for one in all_of_it)
        return [(queue, one["id"]) for queue, one in found if not states or one["state"] in states]

    def current(self) -> list[Lease]:
        """The leases that are held."""
        found = (one for all_of_it in self.messages.values() for one in all_of_it if one["state"] == "inflight")
        held = {Lease(one["queue"], one["id"], one["attempts"]) for one in found}
        return [lease for lease in self.leases if lease in held]


class Teller:
    """Makes up operations, one after the other."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)
        self._count = 0
        self._verbs = {
            self._put: 22,
            self._put_batch_with_options: 8,
            self._put_one: 4,
            self._put_batch: 3,
            self._put_pages: 4,
            self._put_diamond: 3,
            self._publish: 2,
            self._lease: 20,
            self._settle: 16,
            self._ack_one: 5,
            self._override: 5,
            self._commit_everything: 8,
            self._exchange: 4,
            self._add_edge: 3,
            self._renew: 4,
            self._write_record: 3,
            self._advance: 20,
            self._requeue: 6,
            self._prune: 5,
            self._purge: 1,
            self._cancel_run: 1,
            self._pause: 2,
            self._resume: 3,
            self._subscribe: 2,
            self._heartbeat: 2,
            self._journal: 1,
            self._prune_events: 1,
        }

    def next(self, known: Situation) -> Operation:
        while True:
            verb = self._random.choices(list(self._verbs), list(self._verbs.values()))[0]
            operation = verb(known)
            if operation is not None:
                return operation

    # dice

    def _one(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _queue(self) -> str:
        return self._random.choices(QUEUES, (6, 4, 1))[0]

    def _label(self) -> str:
        self._count += 1
        return f"#{self._count}"

    def _any_label(self, known: Situation) -> str:
        """Mostly of a message that is there; sometimes of one that is gone, or was refused."""
        there = known.labels()
        if there and self._chance(0.8):
            return str(self._one(there)[1])
        return f"#{self._random.randint(1, max(1, self._count))}"

    # enqueue

    def _new(self, known: Situation, queue: str | None = None, options: float = 0.25) -> NewMessage:
        label = self._label()
        chosen = {
            name: self._one(values)
            for name, values in {
                "delay": (0.5, 1.0, 3.0, 5.0),
                "ttl": (0.0, 1.0, 2.0, 5.0, 20.0),
                "priority": (-1, 1, 2),
                "dedupe_key": ("d", "d", "e"),
                "ordering_key": ("k", "k", "l"),
                "run_id": RUNS,
                "headers": ('{"a": "b"}',),
                "codec": ("text",),
            }.items()
            if self._chance(options)
        }
        if self._count > 1 and self._chance(options / 2):
            chosen["after"] = tuple(self._any_label(known) for _ in range(self._random.randint(1, 3)))
        payload = self._one((f"p{label}", f"p{label}", b"\x00\xff"))
        return NewMessage(label, queue or self._queue(), payload, **chosen)

    def _limits(self, share: float) -> dict[str, Limit]:
        if not self._chance(share):
            return {}
        limits = {}
        for queue in self._random.sample(QUEUES, self._one((1, 1, 2))):
            overflow = self._one(_OVERFLOWS)
            spill = self._one([q for q in QUEUES if q != queue]) if overflow == "overflow-queue" else None
            limits[queue] = Limit(self._one((0, 1, 2, 2, 3, 4)), overflow, spill)
        return limits

    def _put(self, known: Situation) -> Operation:
        return Operation("commit", (Changes(enqueue=[self._new(known)], limits=self._limits(0.4)),))

    def _put_batch_with_options(self, known: Situation) -> Operation:
        share = self._one((0.0, 0.15, 0.4))
        queue = self._one((None, self._queue()))
        batch = [self._new(known, queue, share) for _ in range(self._random.randint(2, 6))]
        return Operation("commit", (Changes(enqueue=batch, limits=self._limits(0.3)),))

    def _put_one(self, known: Situation) -> Operation:
        return Operation("put_one", (self._queue(), "plain", None), labels=(self._label(),))

    def _put_batch(self, known: Situation) -> Operation:
        labels = tuple(self._label() for _ in range(self._random.randint(1, 5)))
        records = [self._record()] if self._chance(0.2) else []
        return Operation(
            "put_batch", (self._queue(), [f"b{one}" for one in labels], None), {"records": records}, labels
        )

    def _put_pages(self, known: Situation) -> Operation:
        records = [self._record()] if self._chance(0.2) else []
        pages = [self._page(known) for _ in range(self._random.randint(1, 3))]
        return Operation("put_pages", (pages,), {"records": records, "limits": self._limits(0.3)})

    def _page(self, known: Situation) -> Page:
        """Options of some messages, by columns; what says nothing of any is left out. The payload tells the label."""
        queue = self._one((None, self._queue()))
        new = [self._new(known, queue, self._one((0.0, 0.4))) for _ in range(self._random.randint(1, 4))]
        names = ("delay", "priority", "dedupe_key", "ordering_key", "headers", "run_id")
        columns = {name: [getattr(one, name) for one in new] for name in names}
        given: dict[str, Any] = {name: values for name, values in columns.items() if any(values)}
        return Page([f"g{one.id}" for one in new], queue or [one.queue for one in new], **given)

    def _put_diamond(self, known: Situation) -> Operation:
        run = self._one((None, *RUNS))
        a, b, c, d = (self._label() for _ in range(4))
        batch = [
            NewMessage(a, self._queue(), "a", run_id=run),
            NewMessage(b, self._queue(), "b", run_id=run, after=(a,), delay=self._one(_DELAYS)),
            NewMessage(c, self._queue(), "c", run_id=run, after=(a, a), ordering_key=self._one((None, "k"))),
            NewMessage(d, self._queue(), "d", run_id=run, after=(b, c), ttl=self._one((None, 5.0, 20.0))),
        ]
        if self._chance(0.3):
            self._random.shuffle(batch)
        return Operation("commit", (Changes(enqueue=batch, limits=self._limits(0.15)),))

    def _publish(self, known: Situation) -> Operation:
        version = known.subscriptions - (1 if self._chance(0.2) else 0)
        batch = [self._new(known, queue, 0.1) for queue in QUEUES[:2]]
        return Operation("commit", (Changes(enqueue=batch, topics={TOPIC: version}),))

    # claim and settle

    def _request(self) -> LeaseRequest:
        return LeaseRequest(
            self._queue(),
            self._one((1, 1, 2, 3, 5)),
            self._one(_TIMEOUTS),
            self._one((None, None, *WORKERS)),
            self._one(_ATTEMPTS),
            consume=self._chance(0.1),
            counted=self._chance(0.8),
            ledger=KIND if self._chance(0.2) else None,
        )

    def _lease(self, known: Situation) -> Operation:
        return Operation("lease", (self._request(),))

    def _a_lease(self, known: Situation) -> Lease | None:
        """Mostly one that is current, sometimes any."""
        current = known.current()
        leases = current if current and self._chance(0.85) else known.leases
        return self._one(leases) if leases else None

    def _one_settle(self, known: Situation) -> Settle | None:
        lease = self._a_lease(known)
        if lease is None:
            return None
        return Settle(
            *lease[:2],
            self._one(("ack", "ack", "ack", "release", "release", "dead-letter", "cancel")),
            lease.token,
            self._one(_DELAYS),
            self._one((None, {"type": "E", "module": "m", "message": "no"})),
            self._one(_ATTEMPTS),
            forgive=self._chance(0.15),
        )

    def _settle(self, known: Situation) -> Operation | None:
        settles = [self._one_settle(known) for _ in range(self._one((1, 1, 2, 3)))]
        told = list({one.id: one for one in settles if one is not None}.values())
        return Operation("commit", (Changes(settle=told, strict=self._chance(0.3)),)) if told else None

    def _ack_one(self, known: Situation) -> Operation | None:
        lease = self._a_lease(known)
        return None if lease is None else Operation("ack_one", tuple(lease))

    def _override(self, known: Situation) -> Operation | None:
        there = known.labels()
        if not there:
            return None
        queue, label = self._one(there)
        action = self._one(("ack", "release", "dead-letter", "cancel"))
        settle = Settle(queue, label, action, None, self._one(_DELAYS))
        return Operation("commit", (Changes(settle=[settle], strict=self._chance(0.3)),))

    def _exchange(self, known: Situation) -> Operation | None:
        """What a worker does: ack some, claim the next."""
        leases = known.current()
        if not leases:
            return None
        settles = [Settle(*lease[:2], "ack", lease.token) for lease in leases[: self._random.randint(1, 3)]]
        records = [self._record()] if self._chance(0.4) else []
        lease = self._request() if self._chance(0.8) else None
        return Operation("commit", (Changes(settle=settles, records=records, lease=lease, strict=self._chance(0.5)),))

    def _commit_everything(self, known: Situation) -> Operation:
        batch = [self._new(known) for _ in range(self._random.randint(0, 3))]
        edges = []
        if (waiting := known.labels("waiting")) and self._chance(0.4):
            edges = [Edge(self._any_label(known), self._one(waiting)[1])]
        settles = [one for one in (self._one_settle(known) for _ in range(2)) if one is not None]
        changes = Changes(
            enqueue=batch,
            edges=edges,
            settle=list({one.id: one for one in settles}.values()) if self._chance(0.7) else [],
            records=[self._record()] if self._chance(0.4) else [],
            lease=self._request() if self._chance(0.5) else None,
            limits=self._limits(0.3),
            strict=self._chance(0.3),
        )
        return Operation("commit", (changes,))

    def _add_edge(self, known: Situation) -> Operation | None:
        waiting = known.labels("waiting")
        if not waiting:
            return None
        dependent = self._any_label(known) if self._chance(0.1) else self._one(waiting)[1]
        return Operation("commit", (Changes(edges=[Edge(self._any_label(known), dependent)]),))

    def _renew(self, known: Situation) -> Operation | None:
        leases = [one for one in (self._a_lease(known) for _ in range(self._one((1, 2)))) if one is not None]
        leases = list({one.id: one for one in leases}.values())
        return Operation("renew", (leases,), {"timeout": self._one(_TIMEOUTS)}) if leases else None

    # records, time, operators

    def _record(self) -> RecordWrite:
        value = self._one((b"1", b"", None))
        return RecordWrite(KIND, self._one(RECORDS), value, self._one((None, None, 0, CURRENT, CURRENT, STALE)))

    def _write_record(self, known: Situation) -> Operation:
        records = [self._record() for _ in range(self._one((1, 2)))]
        return Operation("commit", (Changes(records=list({one.key: one for one in records}.values())),))

    def _advance(self, known: Situation) -> Operation:
        return Operation("advance", (self._one((0.5, 1.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)),))

    def _requeue(self, known: Situation) -> Operation | None:
        ended = known.labels(*_ENDED)
        if not ended:
            return None
        queue = self._one(ended)[0]
        delay = {"delay": self._one(_DELAYS)}
        if self._chance(0.3):
            return Operation("requeue", (queue,), delay)
        ids = list(dict.fromkeys(self._one(ended)[1] for _ in range(self._one((1, 2, 3)))))
        return Operation("requeue", (queue, ids), delay)

    def _prune(self, known: Situation) -> Operation | None:
        if not known.labels(*_ENDED):
            return None
        options = {"state": self._one(_ENDED), "older_than": self._one((0.0, 1.0, 5.0)), "dry_run": self._chance(0.2)}
        return Operation("prune", (self._queue(),), options)

    def _purge(self, known: Situation) -> Operation:
        return Operation("purge", (self._queue(),))

    def _cancel_run(self, known: Situation) -> Operation:
        return Operation("cancel_run", (self._one(RUNS),))

    def _who(self) -> dict[str, Any]:
        return {"worker": self._one((None, *WORKERS))}

    def _pause(self, known: Situation) -> Operation:
        return Operation("pause", (self._queue(),), self._who())

    def _resume(self, known: Situation) -> Operation:
        return Operation("resume", (self._queue(),), self._who())

    def _subscribe(self, known: Situation) -> Operation:
        verb = self._one(("subscribe", "subscribe", "unsubscribe"))
        return Operation(verb, (TOPIC, self._one(QUEUES)))

    def _heartbeat(self, known: Situation) -> Operation:
        return Operation("heartbeat", (self._queue(), self._one(WORKERS)), {"leases": self._one((0, 1, 2))})

    def _journal(self, known: Situation) -> Operation:
        return Operation(self._one(("enable_journal", "enable_journal", "disable_journal")))

    def _prune_events(self, known: Situation) -> Operation:
        through = self._one((None, known.last_event - 3))
        return Operation("prune_events", (), {"older_than": self._one((0.0, 5.0)), "through": through})
