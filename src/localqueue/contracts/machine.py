"""A Hypothesis state machine that drives a store and the reference model through the same steps.

    TestMyStore = store_machine(lambda: functools.partial(MyStore, fresh_path()), reopenable=True)

`new_place` is called once an example and returns what opens the (at first empty) store there. That is called with
`clock=`, and again after each crash or close when the store is `reopenable`. `LOCALQUEUE_EXAMPLES` sets how many
examples run. Time passes with and without a claim from every queue after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast
from unittest import TestCase

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from localqueue.contracts.agreement import QUEUES, RUNS, WORKERS, counts_agree, messages_agree, runs_agree
from localqueue.contracts.machine_delivery import DeliveryMachine, index, pauses, pick, queues, seconds, seldom
from localqueue.contracts.model import LIVE
from localqueue.contracts.replay import Seen
from localqueue.stores.port import QueueStore


class StoreMachine(DeliveryMachine):
    """Time, crashes and operators. `store_machine` says which store all of it happens to."""

    # time

    @rule(by=seconds)
    def time_passes_unobserved(self, by: float) -> None:
        self.clock.advance(by)
        self.model.now = self.clock()

    @rule(by=seconds)
    def time_passes_and_everybody_claims(self, by: float) -> None:
        self.time_passes_unobserved(by)
        for queue in QUEUES:
            self.claim(queue, 1, 10.0, False)

    @rule(by=seconds, rarely=index)
    def the_clock_jumps_back(self, by: float, rarely: int) -> None:
        if not seldom(rarely):
            return
        self.clock.jump_back(by)
        self.model.now = self.clock()

    @precondition(lambda self: self.reopenable)
    @rule(cleanly=st.booleans())
    def reopen(self, cleanly: bool) -> None:
        """After a crash nobody closed the store; the object is only dropped."""
        if cleanly:
            self.store.close()
        self.store = self.open(clock=self.clock)
        self.opened.append(self.store)

    # operations

    @precondition(lambda self: self.ended())
    @rule(chosen=st.lists(index, min_size=1, max_size=3), delay=pauses)
    def requeue_some(self, chosen: list[int], delay: float) -> None:
        ids = [pick(self.ids if seldom(n) else self.ended(), n) for n in chosen]
        known = [self.model.messages[i] for i in ids if i in self.model.messages]
        if known:
            queue = known[0].queue
            self.both(
                lambda model: model.requeue(queue, ids, delay), lambda: self.store.requeue(queue, ids, delay=delay)
            )

    @precondition(lambda self: any(m.state == "dead" for m in self.model.messages.values()))
    @rule(queue=queues, delay=pauses)
    def requeue_all_dead(self, queue: str, delay: float) -> None:
        self.both(lambda model: model.requeue(queue, None, delay), lambda: self.store.requeue(queue, delay=delay))

    def ended(self) -> list[str]:
        return [m.id for m in self.model.messages.values() if m.state not in LIVE]

    @rule(queue=queues, rarely=index)
    def pause(self, queue: str, rarely: int) -> None:
        if not seldom(rarely):
            return
        self.store.pause(queue)
        self.model.paused.add(queue)

    @precondition(lambda self: self.model.paused)
    @rule()
    def resume(self) -> None:
        for queue in self.model.paused:
            self.store.resume(queue)
        self.model.paused.clear()

    @rule(queue=queues, worker=st.sampled_from(WORKERS), rarely=index)
    def pause_a_worker(self, queue: str, worker: str, rarely: int) -> None:
        if not seldom(rarely):
            return
        self.store.pause(queue, worker=worker)
        self.model.paused_workers.add((queue, worker))

    @precondition(lambda self: self.model.paused_workers)
    @rule(n=index)
    def resume_a_worker(self, n: int) -> None:
        queue, worker = pick(sorted(self.model.paused_workers), n)
        self.store.resume(queue, worker=worker)
        self.model.paused_workers.discard((queue, worker))
        assert not self.store.paused(queue, worker=worker)

    @precondition(lambda self: self.ended())
    @rule(queue=queues, state=st.sampled_from(("dead", "expired", "cancelled")), older_than=seconds)
    def prune(self, queue: str, state: str, older_than: float) -> None:
        would = self.store.prune(queue, state=state, older_than=older_than, dry_run=True)
        self.both(
            lambda model: model.prune(queue, state, older_than),
            lambda: self.store.prune(queue, state=state, older_than=older_than),
        )
        assert self.store.prune(queue, state=state, older_than=older_than) == 0 <= would

    @precondition(lambda self: self.model.messages)
    @rule(queue=queues, rarely=index)
    def purge(self, queue: str, rarely: int) -> None:
        if seldom(rarely):
            self.both(lambda model: model.purge(queue), lambda: self.store.purge(queue))

    @precondition(lambda self: any(m.run_id and m.state in LIVE for m in self.model.messages.values()))
    @rule(run_id=st.sampled_from(RUNS), rarely=index)
    def cancel_run(self, run_id: str, rarely: int) -> None:
        if seldom(rarely):
            self.both(lambda model: model.cancel_run(run_id), lambda: self.store.cancel_run(run_id))

    # what must be the same after every step

    @invariant()
    def store_and_model_agree(self) -> None:
        counts_agree(self.store, self.model)
        messages_agree(self.store, self.model)
        runs_agree(self.store, self.model)

    @precondition(lambda self: self.journal)
    @invariant()
    def the_journal_tells_the_same(self) -> None:
        entries = self.store.events(after=self.last_entry)
        assert [entry.seq for entry in entries] == [self.last_entry + n for n in range(1, len(entries) + 1)]
        self.last_entry += len(entries)
        assert self.store.journal_span() == (1, self.last_entry)
        for entry in entries:
            if entry.type == "enqueued" and (known := self.model.messages.get(entry.message_id)):
                assert entry.options == known.options
        messages = self.model.messages.values()
        told = self.replayed.read(entries)
        assert told.compare(Seen(m.id, m.queue, m.state, m.attempts, len(m.after)) for m in messages) == []


def store_machine(
    new_place: Callable[[], Callable[..., QueueStore]],
    *,
    reopenable: bool,
    steady_line: bool = False,
    examples: int = 25,
) -> type[TestCase]:
    """A test case that runs the machine on one kind of store, with `examples` unless the environment says otherwise.

    On a steady line what is put stands behind all that is there, also when the clock goes back (`SteadyLineContract`).
    """
    attributes = {"new_place": staticmethod(new_place), "reopenable": reopenable, "steady_line": steady_line}
    case: Any = type("Machine", (StoreMachine,), attributes).TestCase  # type: ignore[attr-defined]
    case.settings = settings(
        max_examples=int(os.environ.get("LOCALQUEUE_EXAMPLES", examples)),
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # making a failure smaller takes longer than a test may: see the blob that is printed
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    return cast("type[TestCase]", case)
