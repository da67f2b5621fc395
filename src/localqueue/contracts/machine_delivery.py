"""The part of the state machine that puts, claims and settles."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from localqueue.contracts.agreement import QUEUES, RUNS, WORKERS
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.model import Model
from localqueue.contracts.replay import Replay
from localqueue.errors import LeaseLost, QueueError
from localqueue.stores.port import (
    Changes,
    Edge,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    QueueStore,
    Settle,
)

T = TypeVar("T")
MAX_ATTEMPTS = 3

queues = st.sampled_from(QUEUES[:2])
index = st.integers(0, 50)
seconds = st.sampled_from((1.0, 2.0, 5.0, 10.0))
workers = st.sampled_from((None, None, *WORKERS))
pauses = st.sampled_from((0.0, 0.0, 2.0, 5.0))
actions = st.sampled_from(("ack", "ack", "release", "dead-letter", "cancel"))
limits = st.sampled_from(
    (
        None,
        None,
        Limit(0),
        Limit(3),
        Limit(2, "drop-newest"),
        Limit(2, "drop-oldest"),
        Limit(2, "overflow-queue", "spill"),
    )
)
options = st.fixed_dictionaries(
    {},
    optional={
        "delay": seconds,
        "priority": st.integers(0, 2),
        "dedupe_key": st.sampled_from("de"),
        "ordering_key": st.sampled_from("kl"),
        "ttl": st.sampled_from((0.0, 2.0, 5.0)),
        "run_id": st.sampled_from(RUNS),
    },
)


class Handle(NamedTuple):
    """A lease as a worker remembers it, current or not."""

    queue: str
    id: str
    token: int


def pick(values: list[T], n: int) -> T:
    return values[n % len(values)]


def seldom(n: int) -> bool:
    """True for one `index` in four; small numbers, which Hypothesis likes best, are not it."""
    return n % 4 == 3


class DeliveryMachine(RuleBasedStateMachine):
    """Producers and workers, some of them late."""

    new_place: Callable[[], Callable[..., QueueStore]]
    reopenable: bool
    steady_line: bool

    @initialize(journal=st.booleans())
    def open_a_new_store(self, journal: bool) -> None:
        self.clock = FakeClock(1000.0)
        self.model = Model(now=self.clock(), steady_line=self.steady_line)
        self.open = type(self).new_place()
        self.store = self.open(clock=self.clock)
        self.opened = [self.store]
        if journal:
            self.store.enable_journal()
        self.journal = journal
        self.after: dict[str, tuple[str, ...]] = {}
        self.replayed = Replay(after=self.after)
        self.last_entry = 0
        self.handles: list[Handle] = []
        self.ids: list[str] = []

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                assert self.store.check().problems == ()
        finally:
            for store in getattr(self, "opened", []):
                store.close()

    def both(self, on_model: Callable[[Model], T], on_store: Callable[[], T]) -> T | None:
        """Take a step in both. They agree on the result, or both refuse and nothing is changed."""
        before = copy.deepcopy(self.model)
        try:
            expected = on_model(self.model)
        except QueueError as refusal:
            self.model = before
            with pytest.raises(QueueError) as caught:
                on_store()
            assert type(caught.value) is type(refusal)
            return None
        result = on_store()
        assert result == expected
        return result

    # enqueue

    @rule(queue=queues, how=options, limit=limits, after=st.lists(index, max_size=3))
    def put(self, queue: str, how: dict[str, Any], limit: Limit | None, after: list[int]) -> None:
        upstream = tuple(pick(self.ids, n) for n in after) if self.ids else ()
        message = NewMessage(self.store.mint()[0], queue, f"p{len(self.ids)}", after=upstream, **how)
        self._put([message], {queue: limit} if limit else {})

    @rule(queue=queues)
    def put_one(self, queue: str) -> None:
        message_id, at = self.store.put_one(queue, "plain", None)
        assert at == self.clock()
        self.model.put([NewMessage(message_id, queue, "plain")], {})
        self.ids.append(message_id)

    @precondition(lambda self: self.handles)
    @rule(n=index)
    def ack_one(self, n: int) -> None:
        handle = self.a_lease(n)
        self.both(
            lambda model: model.settle(handle.queue, handle.id, "ack", handle.token, 0.0, None),
            lambda: self.store.ack_one(*handle),
        )

    @rule(queue=queues, count=st.integers(2, 4), how=options, limit=limits)
    def put_a_batch(self, queue: str, count: int, how: dict[str, Any], limit: Limit | None) -> None:
        batch = [NewMessage(i, queue, f"p{len(self.ids)}", **how) for i in self.store.mint(count)]
        self._put(batch, {queue: limit} if limit else {})

    @precondition(lambda self: sum(m.state == "waiting" for m in self.model.messages.values()) < 4)
    @rule(run_id=st.sampled_from((None, *RUNS)))
    def put_a_diamond(self, run_id: str | None) -> None:
        a, b, c, d = self.store.mint(4)
        self._put(
            [
                NewMessage(a, "one", "a", run_id=run_id),
                NewMessage(b, "one", "b", run_id=run_id, after=(a,)),
                NewMessage(c, "two", "c", run_id=run_id, after=(a, a)),
                NewMessage(d, "two", "d", run_id=run_id, after=(b, c)),
            ],
            {},
        )

    def _put(self, batch: list[NewMessage], limits: dict[str, Limit]) -> None:
        changes = Changes(enqueue=batch, limits=limits)
        self.after |= {message.id: message.after for message in batch}
        outcomes = self.both(
            lambda model: model.put(batch, limits),
            lambda: [str(one.outcome) for one in self.store.commit(changes).enqueued],
        )
        for message, outcome in zip(batch, outcomes or [], strict=False):
            if outcome in ("stored", "diverted"):
                self.ids.append(message.id)

    @precondition(lambda self: any(m.state == "waiting" for m in self.model.messages.values()))
    @rule(upstream=index, dependent=index)
    def add_an_edge(self, upstream: int, dependent: int) -> None:
        waiting = [m.id for m in self.model.messages.values() if m.state == "waiting"]
        edge = Edge(pick(self.ids, upstream), pick(self.ids if seldom(dependent) else waiting, dependent))
        self.both(lambda model: model.add_edge(*edge), lambda: self._commit(Changes(edges=[edge])))
        if self.journal and edge.dependent in self.model.messages:
            self.replayed.messages[edge.dependent].after = set(self.model.messages[edge.dependent].after)

    def _commit(self, changes: Changes) -> None:
        self.store.commit(changes)

    # claim and settle

    def a_lease(self, n: int) -> Handle:
        """Mostly one that is current, sometimes any."""
        held = [h for h in self.handles if h.id in self.model.messages and self.model.messages[h.id].holds(h.token)]
        return pick(self.handles if seldom(n) or not held else held, -n)

    @precondition(lambda self: any(m.state == "ready" for m in self.model.messages.values()))
    @rule(
        queue=queues,
        limit=st.integers(1, 3),
        timeout=seconds,
        consume=st.sampled_from((False, False, False, True)),
        worker=workers,
    )
    def lease(self, queue: str, limit: int, timeout: float, consume: bool, worker: str | None) -> None:
        self.claim(queue, limit, timeout, consume, worker)

    def claim(self, queue: str, limit: int, timeout: float, consume: bool, worker: str | None = None) -> None:
        request = LeaseRequest(queue, limit, timeout, worker, MAX_ATTEMPTS, consume)
        leased: list[Any] = []

        def on_store() -> list[str]:
            leased.extend(self.store.lease(request))
            return [message.id for message in leased]

        self.both(lambda model: model.lease(queue, limit, timeout, MAX_ATTEMPTS, consume, worker), on_store)
        for message in leased:
            self.handles.append(Handle(queue, message.id, message.attempts))
            assert consume or message == self.store.get(queue, message.id)

    @precondition(lambda self: self.handles)
    @rule(n=index, action=actions, delay=pauses)
    def settle(self, n: int, action: Any, delay: float) -> None:
        queue, message_id, token = self.a_lease(n)
        self._settle(Settle(queue, message_id, action, token, delay, None, MAX_ATTEMPTS))

    @precondition(lambda self: self.handles)
    @rule(n=index)
    def give_back_unseen(self, n: int) -> None:
        queue, message_id, token = self.a_lease(n)
        self._settle(Settle(queue, message_id, "release", token, max_attempts=MAX_ATTEMPTS, forgive=True))

    @precondition(lambda self: self.ids)
    @rule(n=index, queue=st.sampled_from(QUEUES), action=actions, delay=pauses)
    def override(self, n: int, queue: str, action: Any, delay: float) -> None:
        message_id = pick(self.ids, n)
        known = self.model.messages.get(message_id)
        self._settle(Settle(known.queue if known else queue, message_id, action, None, delay))

    def _settle(self, one: Settle) -> None:
        self.both(
            lambda model: model.settle(
                one.queue, one.id, one.action, one.token, one.delay, one.max_attempts, one.forgive
            ),
            lambda: self.store.commit(Changes(settle=[one], strict=False)).settled[0],
        )

    @precondition(lambda self: self.handles)
    @rule(n=index, m=index, queue=queues, worker=workers)
    def ack_two_and_lease_the_next_in_one_strict_commit(self, n: int, m: int, queue: str, worker: str | None) -> None:
        chosen = list(dict.fromkeys((self.a_lease(n), self.a_lease(m))))
        leased: list[Any] = []

        def on_model(model: Model) -> list[str]:
            for queue_of, message_id, token in chosen:
                if not model.settle(queue_of, message_id, "ack", token, 0.0, None):
                    raise LeaseLost(queue_of, message_id, token)
            return model.lease(queue, 1, 10.0, MAX_ATTEMPTS, False, worker)

        def on_store() -> list[str]:
            request = LeaseRequest(queue, 1, 10.0, worker, MAX_ATTEMPTS)
            settles = [Settle(handle.queue, handle.id, "ack", handle.token) for handle in chosen]
            leased.extend(self.store.commit(Changes(settle=settles, lease=request)).leased)
            return [message.id for message in leased]

        self.both(on_model, on_store)
        self.handles += [Handle(queue, message.id, message.attempts) for message in leased]

    @precondition(lambda self: self.handles)
    @rule(n=index, timeout=seconds)
    def renew(self, n: int, timeout: float) -> None:
        handle = self.a_lease(n)
        self.both(
            lambda model: model.renew(*handle, timeout),
            lambda: self.store.renew([Lease(*handle)], timeout=timeout)[0] == self.clock() + timeout,
        )
