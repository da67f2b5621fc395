"""The ways of a client to put messages, each into queues where a promise of its own holds."""

from __future__ import annotations

from typing import Any

from localqueue.stores.port import Changes, Limit, NewMessage, RecordWrite
from tests.chaos.client import Client, payload_of
from tests.chaos.facts import WORKED
from tests.chaos.history import Bound, Operation, Put
from tests.chaos.verdicts.commits import PUBLISH

PLAIN, KEYED, DEDUPED, STEPS, BRIEF, FRAGILE, CONSUMED = (
    "plain",
    "keyed",
    "deduped",
    "steps",
    "brief",
    "fragile",
    "gone",
)
BOUNDED, LATEST, NEWEST, FULL, SPILL = "bounded", "latest", "newest", "full", "spill"
ORDERS, JOBS = "orders", WORKED
SUBSCRIBERS = ("news.ann", "news.bob", "news.cyd")

BOUNDS = {
    BOUNDED: Bound(BOUNDED, 8, "reject"),
    LATEST: Bound(LATEST, 5, "drop-oldest"),
    NEWEST: Bound(NEWEST, 5, "drop-newest"),
    FULL: Bound(FULL, 5, "overflow-queue", SPILL),
}

#: Where an attempt limit holds for whoever claims.
MOST = {FRAGILE: 2}

#: The kind of the records that commits write.
RECORDS, LEDGER = "chaos", "chaos-done"

KEYS = 5


MANY = tuple(f"many-{n:03}" for n in range(1000))


class Producer(Client):
    def put_one(self) -> None:
        self._remember(self._put_one(PLAIN))

    def put_into_one_of_many(self) -> None:
        self._put_one(self.chance.choice(MANY))

    def put_to_be_consumed(self) -> None:
        self._put_one(CONSUMED)

    def _put_one(self, queue: str) -> Operation:
        put = Put(queue, self.name(queue))
        payload = payload_of(put.name, self.chance.choice((0, 0, 0, 0, 100, 5_000)))
        return self.ask("put_one", lambda: self.store.put_one(queue, payload, None), puts=(put,))

    def put_batch(self) -> None:
        """A batch of plain messages, at times with a record in its transaction."""
        puts = tuple(Put(PLAIN, self.name(PLAIN)) for _ in range(self.chance.choice((2, 5, 20))))
        record = self.name("record") if self.chance.random() < 0.3 else None
        writes = [RecordWrite(RECORDS, record, b"x", 0)] if record else []
        payloads = [put.name for put in puts]
        self.ask(
            "put_batch",
            lambda: self.store.put_batch(PLAIN, payloads, None, records=writes),
            puts=puts,
            record=record,
        )

    def put_keyed(self) -> None:
        """One or some of an ordering key; a delay holds up the key."""
        keys = [f"k{self.chance.randrange(KEYS)}" for _ in range(self.chance.choice((1, 1, 4)))]
        delay = self.chance.choice((0.0, 0.0, 0.0, 0.1))
        self.commit("put", [Put(KEYED, self.name(KEYED), ordering_key=key, delay=delay) for key in keys])

    def put_deduped(self) -> None:
        keys = {f"d{self.chance.randrange(KEYS)}" for _ in range(self.chance.choice((1, 1, 1, 3)))}
        self.commit("put", [Put(DEDUPED, self.name(DEDUPED), dedupe_key=key) for key in sorted(keys)])

    def put_steps(self) -> None:
        """Some that come after each other, and after what is known already."""
        above = self.chance.sample(list(self.known), min(len(self.known), self.chance.randrange(3)))
        names = [self.name(STEPS) for _ in range(self.chance.choice((1, 2, 3)))]
        puts = [Put(STEPS, names[0], after=tuple(name for name, _ in above))]
        puts += [Put(STEPS, name, after=(names[n],)) for n, name in enumerate(names[1:])]
        self._remember(self.commit("put", puts, known=dict(above)))

    def put_brief(self) -> None:
        """With a short life, or a delay, or both."""
        ttl = self.chance.choice((None, 0.2, 0.6))
        delay = self.chance.choice((0.0, 0.05, 0.3))
        self.commit("put", [Put(BRIEF, self.name(BRIEF), ttl=ttl, delay=delay)])

    def put_fragile(self) -> None:
        self.commit("put", [Put(FRAGILE, self.name(FRAGILE), priority=self.chance.randrange(3))])

    def put_bounded(self) -> None:
        bound = BOUNDS[self.chance.choice((BOUNDED, BOUNDED, LATEST, NEWEST, FULL))]
        puts = [Put(bound.queue, self.name(bound.queue)) for _ in range(self.chance.choice((1, 1, 2)))]
        self.commit("put", puts, bound=bound)
        self.look(bound.queue)

    def look(self, queue: str) -> None:
        """How many messages count against the limit of a queue."""
        self.ask("look", lambda: self.store.load(queue), queue=queue)

    def publish(self) -> None:
        self.commit(PUBLISH, [Put(queue, self.name(queue)) for queue in SUBSCRIBERS])

    def put_with_record(self) -> None:
        """Messages of several queues and a record in one transaction."""
        puts = [Put(queue, self.name(queue)) for queue in (PLAIN, STEPS, KEYED)]
        self.commit("put", puts, record=self.name("record"))

    def order(self) -> None:
        """Work of which the effect is to happen once for each key, however often it is ordered."""
        self.commit("put", [Put(ORDERS, self.name(ORDERS), dedupe_key=f"o{self.chance.randrange(40)}")])

    def commit(
        self,
        verb: str,
        puts: list[Put],
        *,
        known: dict[str, str] | None = None,
        record: str | None = None,
        bound: Bound | None = None,
        **parts: Any,
    ) -> Operation:
        """One commit of new messages, and whatever else of the port's `Changes` is among the parts."""
        changes, ids = self.changes(puts, known or {}, record, bound)
        return self.ask(
            verb, lambda: self.store.commit(changes), ids=ids, puts=tuple(puts), record=record, bound=bound, **parts
        )

    def changes(
        self, puts: list[Put], known: dict[str, str], record: str | None, bound: Bound | None = None
    ) -> tuple[Changes, list[str]]:
        ids = self.store.mint(len(puts))
        by_name = {**known, **{put.name: new for put, new in zip(puts, ids, strict=True)}}
        messages = [
            NewMessage(
                new, put.queue, put.name, None, put.delay, put.priority, put.dedupe_key, put.ordering_key, put.ttl,
                after=tuple(by_name[name] for name in put.after),
            )
            for put, new in zip(puts, ids, strict=True)
        ]  # fmt: skip
        changes = Changes(enqueue=messages)
        if record is not None:
            changes.records = [RecordWrite(RECORDS, record, b"x", 0)]
        if bound is not None:
            changes.limits = {bound.queue: Limit(bound.maxsize, bound.overflow, bound.spill)}  # type: ignore[arg-type]
        return changes, ids

    def _remember(self, one: Operation) -> None:
        if one.answer == "ok":
            self.known += ((put.name, stored.id) for put, stored in zip(one.puts, one.stored, strict=True))
