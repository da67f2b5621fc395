"""The fast paths of `PostgresQueueStore` do what the engine would.

Twin namespaces on one clock get the same calls: one by the fast paths, the other by the engine alone. What the calls
return, and all that can be seen afterwards, is the same.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueError
from localqueue.ids import IdRange
from localqueue.stores.engine.leases import lease
from localqueue.stores.port import (
    STATES,
    Changes,
    Committed,
    LeaseRequest,
    NewMessage,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.postgres import PostgresQueueStore
from localqueue.stores.postgres.notify import queue_token
from tests.servers import Postgres

pytestmark = [pytest.mark.server, pytest.mark.slow]

QUEUES = ("a", "b")
A_BATCH = 250  # goes by COPY


class LongWay(PostgresQueueStore):
    """The store without its fast paths."""

    def commit(self, changes: Changes) -> Committed:
        return self._apply(changes)

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        while (messages := self._write(lambda unit: lease(unit, request), [request.queue])) is None:
            pass
        return messages

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        (message_id,) = self.mint()
        done = self.commit(Changes(enqueue=[NewMessage(message_id, queue, payload, codec)]))
        return message_id, done.enqueued[0].at

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        first = self.ids.reserve(len(payloads))
        ids = IdRange(self.ids, range(first, first + len(payloads)))
        messages = [NewMessage(i, queue, payload, codec) for i, payload in zip(ids, payloads, strict=True)]
        done = self.commit(Changes(enqueue=messages, records=records))
        return ids, done.enqueued[0].at

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        settle = Settle(queue, message_id, "ack", token)
        return self.commit(Changes(settle=[settle], strict=False)).settled[0]


class Twin:
    """One of the two, whose ids are told apart by the order in which they were made."""

    def __init__(self, store: PostgresQueueStore) -> None:
        self.store = store
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self.leased: list[StoredMessage] = []

    def made(self, ids: Sequence[str]) -> None:
        self.numbers.update({message_id: n for n, message_id in enumerate(ids, len(self.ids))})
        self.ids += ids

    def plain(self, value: Any) -> Any:
        """The same thing with numbers in the place of ids and versions."""
        if isinstance(value, StoredMessage):
            record = None if value.record is None else value.record._replace(version=0)
            return value._replace(id=str(self.numbers[value.id]), record=record)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return [self.plain(one) for one in value]
        if isinstance(value, Committed):
            enqueued = [one._replace(existing=self.plain(one.existing)) for one in value.enqueued]
            return enqueued, value.settled, self.plain(value.leased), [bool(version) for version in value.versions]
        return value

    def picture(self) -> dict[str, Any]:
        store = self.store
        journal: dict[int, list[Any]] = {}
        for event in store.events():
            entry = event._replace(seq=0, message_id="")
            journal.setdefault(self.numbers[event.message_id], []).append(entry)
        return {
            "stats": [store.stats(name) for name in QUEUES],
            "messages": [self.plain(store.scan(name)) for name in QUEUES],
            "ended": [[self.plain(store.scan(name, state=state)) for state in STATES[5:]] for name in QUEUES],
            "runs": [store.run(name) for name in store.runs()],
            "records": [(one.key, one.value, one.updated_at) for one in store.records("done")],
            "journal": journal,
            "problems": store.check().problems,
        }


class Twins:
    def __init__(self, fast: PostgresQueueStore, slow: LongWay) -> None:
        self.twins = (Twin(fast), Twin(slow))

    def both(self, call: Any) -> Any:
        """Have both do it; what came of it must be the same."""
        outcomes = []
        for twin in self.twins:
            try:
                outcomes.append(twin.plain(call(twin)))
            except QueueError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        assert self.twins[0].picture() == self.twins[1].picture()
        return outcomes[0]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
def twins(request: pytest.FixtureRequest, postgres: Postgres, clock: Clock) -> Iterator[Twins]:
    name = secrets.token_hex(6)
    with (
        PostgresQueueStore(postgres.url, namespace=f"{name}/fast", clock=clock, pooled=request.param) as fast,
        LongWay(postgres.url, namespace=f"{name}/slow", clock=clock, pooled=request.param) as slow,
    ):
        for store in (fast, slow):
            store.enable_journal()
        yield Twins(fast, slow)


def seeds(count: int) -> pytest.MarkDecorator:
    """Random work, every other time behind a pooler."""
    named = [pytest.param(bool(n % 2), n, id=f"{'pooled' if n % 2 else 'direct'}-{n}") for n in range(count)]
    return pytest.mark.parametrize(("twins", "seed"), named, indirect=["twins"])


def put_one(twin: Twin, queue: str, payload: Payload) -> float:
    message_id, at = twin.store.put_one(queue, payload, None)
    twin.made([message_id])
    return at


def put_batch(twin: Twin, queue: str, count: int, records: Sequence[RecordWrite]) -> float:
    ids, at = twin.store.put_batch(queue, [f"{n}" if n % 2 else b"%d" % n for n in range(count)], "c", records=records)
    twin.made(list(ids))
    return at


def put(twin: Twin, messages: Sequence[dict[str, Any]]) -> Committed:
    ids = twin.store.mint(len(messages))
    known = len(twin.ids)
    twin.made(ids)
    new = []
    for message_id, options in zip(ids, messages, strict=True):
        after = tuple(twin.ids[n] for n in options.get("after", ()) if n < known)
        new.append(NewMessage(message_id, **{**options, "after": after}))
    return twin.store.commit(Changes(enqueue=new))


def claim(twin: Twin, request: LeaseRequest) -> list[StoredMessage]:
    found = twin.store.lease(request)
    if not request.consume:
        twin.leased += found
    return found


def ack(twin: Twin, which: int) -> bool | None:
    if not twin.leased:
        return None
    message = twin.leased.pop(which % len(twin.leased))
    return twin.store.ack_one(message.queue, message.id, message.attempts)


def step(twin: Twin, count: int, records: Sequence[RecordWrite], request: LeaseRequest | None, strict: bool) -> Any:
    queue = request.queue if request is not None else QUEUES[0]
    done = [message for message in twin.leased if message.queue == queue][:count]
    twin.leased = [message for message in twin.leased if message not in done]
    settle = [Settle(queue, message.id, "ack", message.attempts) for message in done]
    if not settle and request is None:
        return None
    committed = twin.store.commit(Changes(settle=settle, records=records, lease=request, strict=strict))
    if request is not None and not request.consume:
        twin.leased += committed.leased
    return committed


def release(twin: Twin, which: int, delay: float) -> list[bool] | None:
    if not twin.leased:
        return None
    one = twin.leased.pop(which % len(twin.leased))
    settle = Settle(one.queue, one.id, "release", one.attempts, delay, {"type": "E", "message": "no"}, 3)
    return twin.store.commit(Changes(settle=[settle], strict=False)).settled


def _options(chance: random.Random, keyed: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "queue": chance.choice(QUEUES),
        "payload": chance.choice(("x", b"\x00y")),
        "delay": chance.choice((0.0, 0.0, 5.0)),
        "priority": chance.choice((0, 0, 3)),
        "ttl": chance.choice((None, None, 0.0, 3.0, 12.0)),
        "headers": chance.choice((None, '{"a":"b"}')),
    }
    if keyed:
        options["dedupe_key"] = chance.choice((None, "d1", "d2"))
        options["ordering_key"] = chance.choice((None, "o1"))
        options["run_id"] = chance.choice((None, "run"))
        options["after"] = chance.sample(range(6), 2) if chance.random() < 0.3 else ()
    return options


def _request(chance: random.Random) -> LeaseRequest:
    return LeaseRequest(
        chance.choice(QUEUES),
        chance.choice((1, 1, 3)),
        timeout=chance.choice((4.0, 30.0)),
        leased_by=chance.choice((None, "w")),
        max_attempts=chance.choice((None, 2)),
        consume=chance.random() < 0.2,
        counted=chance.random() < 0.5,
        ledger=chance.choice((None, "done")),
    )


def _records(chance: random.Random) -> list[RecordWrite]:
    names = [f"{chance.choice(QUEUES)}:d{n}" for n in range(1, chance.choice((1, 1, 3)))]
    return [
        RecordWrite("done", name, chance.choice((b"v", b"w", None)), chance.choice((None, None, 0))) for name in names
    ]


@seeds(4)
def test_the_fast_paths_do_what_the_engine_does(seed: int, twins: Twins, clock: Clock) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        what = chance.random()
        which, queue = chance.randrange(100), chance.choice(QUEUES)
        if what < 0.1:
            payload = chance.choice(("one", b"\xff"))
            twins.both(lambda twin: put_one(twin, queue, payload))  # noqa: B023
        elif what < 0.16:
            count, records = chance.choice((1, 2, A_BATCH)), _records(chance)
            twins.both(lambda twin: put_batch(twin, queue, count, records))  # noqa: B023
        elif what < 0.32:
            messages = [_options(chance, False) for _ in range(chance.choice((1, 1, 3)))]
            twins.both(lambda twin: put(twin, messages))  # noqa: B023
        elif what < 0.42:
            messages = [_options(chance, True) for _ in range(chance.choice((1, 2)))]
            twins.both(lambda twin: put(twin, messages))  # noqa: B023
        elif what < 0.6:
            request = _request(chance)
            twins.both(lambda twin: claim(twin, request))  # noqa: B023
        elif what < 0.72:
            twins.both(lambda twin: ack(twin, which))  # noqa: B023
        elif what < 0.78:
            delay = chance.choice((0.0, 3.0))
            twins.both(lambda twin: release(twin, which, delay))  # noqa: B023
        elif what < 0.92:
            records, strict, count = _records(chance), chance.random() < 0.5, chance.choice((0, 1, 3))
            wanted = chance.choice((None, _request(chance)))
            twins.both(lambda twin: step(twin, count, records, wanted, strict))  # noqa: B023
        else:
            clock.now += chance.choice((1.0, 5.0, 20.0))


def _graph(chance: random.Random, run: str, first: int) -> list[dict[str, Any]]:
    """The beginning of a run, each message behind some of those before it; most of it in one queue."""
    messages = []
    for n in range(chance.randint(2, 7)):
        odd = chance.random() < 0.1
        messages.append(
            {
                "queue": chance.choice((*QUEUES[:1] * 5, QUEUES[1])),
                "payload": f"{run}/{n}",
                "delay": chance.choice((*(0.0,) * 9, 3.0)),
                "ttl": 12.0 if odd and chance.random() < 0.5 else None,
                "ordering_key": "o1" if odd and chance.random() < 0.5 else None,
                "run_id": run,
                "after": [first + above for above in chance.sample(range(n), min(n, chance.choice((1, 1, 2, 3))))],
            }
        )
    return messages


def _put_one_by_one(twin: Twin, messages: Sequence[dict[str, Any]]) -> list[Any]:
    return [put(twin, [message]).enqueued[0] for message in messages]


def _put_together(twin: Twin, messages: Sequence[dict[str, Any]]) -> list[Any]:
    ids = twin.store.mint(len(messages))
    twin.made(ids)
    new = [
        NewMessage(message_id, **{**options, "after": tuple(twin.ids[n] for n in options["after"])})
        for message_id, options in zip(ids, messages, strict=True)
    ]
    return list(twin.store.commit(Changes(enqueue=new)).enqueued)


def _is_alike(one: Any, other: Any) -> bool:
    return (one.outcome, one.state, one.at) == (other.outcome, other.state, other.at)


@seeds(4)
def test_runs_begun_and_stepped_through_the_short_ways_are_what_the_engine_makes_of_them(
    seed: int, twins: Twins, clock: Clock
) -> None:
    chance = random.Random(seed)
    fast, slow = twins.twins
    for number in range(8):
        run = _graph(chance, f"run{number}", len(fast.ids))
        together, one_by_one = _put_together(fast, run), _put_one_by_one(slow, run)
        assert all(map(_is_alike, together, one_by_one))
        assert fast.picture() == slow.picture()
        for _ in range(12):
            request = LeaseRequest(chance.choice((*QUEUES[:1] * 3, QUEUES[1])), chance.choice((1, 2, 4)), leased_by="w")
            count, records = chance.choice((1, 1, 2, 4)), _records(chance)
            twins.both(lambda twin: step(twin, count, records, request, True))  # noqa: B023
            clock.now += chance.choice((0.0, 0.0, 0.5, 4.0))


def test_a_step_of_a_run_that_sets_others_free_is_one_statement(twins: Twins) -> None:
    fast, _ = twins.twins
    run = [{"queue": "a", "payload": f"{n}", "run_id": "r", "after": [0] if n else []} for n in range(4)]
    _put_together(fast, run)
    (first,) = claim(fast, LeaseRequest("a"))

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the engine was asked")

    fast.store._apply = refuse  # type: ignore[method-assign]
    settle = [Settle("a", first.id, "ack", first.attempts)]
    freed = fast.store.commit(Changes(settle=settle, lease=LeaseRequest("a", 3))).leased
    assert [one.payload for one in freed] == ["1", "2", "3"]
    found = fast.store.run("r")
    assert found is not None and (found.total, found.done) == (4, 1)


@pytest.mark.parametrize(("claimed", "told"), [(3, []), (1, [queue_token("a")])])
def test_others_are_told_of_what_a_step_has_set_free_and_not_claimed(
    twins: Twins, postgres: Postgres, claimed: int, told: list[str]
) -> None:
    fast, _ = twins.twins
    run = [{"queue": "a", "payload": f"{n}", "run_id": "r", "after": [0] if n else []} for n in range(4)]
    _put_together(fast, run)
    (first,) = claim(fast, LeaseRequest("a"))
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute(f'LISTEN "{fast.store.channel}"')
        settle = [Settle("a", first.id, "ack", first.attempts)]
        assert len(fast.store.commit(Changes(settle=settle, lease=LeaseRequest("a", claimed))).leased) == claimed
        other.execute("SELECT pg_notify(%s, 'the end')", (fast.store.channel,))
        heard: list[str] = []
        for notice in other.notifies(timeout=PATIENCE):
            if notice.payload == "the end":
                break
            heard.append(notice.payload)
    assert heard == told


def test_a_large_batch_with_options_is_what_its_messages_are_one_by_one(twins: Twins) -> None:
    chance = random.Random(1)
    messages = [_options(chance, False) for _ in range(A_BATCH)]
    fast, slow = twins.twins
    together = put(fast, messages).enqueued
    one_by_one = [put(slow, [message]).enqueued[0] for message in messages]
    assert together == one_by_one
    assert fast.picture() == slow.picture()


def test_a_large_batch_with_keys_is_what_its_messages_are_one_by_one(twins: Twins) -> None:
    chance = random.Random(2)
    messages = [
        {**_options(chance, True), "dedupe_key": f"d{n % 200}", "ordering_key": f"o{n % 7}", "after": ()}
        for n in range(A_BATCH)
    ]
    fast, slow = twins.twins
    together = fast.plain(put(fast, messages))[0]
    one_by_one = [slow.plain(put(slow, [message]))[0][0] for message in messages]
    assert [one._replace(existing=None) for one in together] == [one._replace(existing=None) for one in one_by_one]
    assert fast.picture() == slow.picture()
