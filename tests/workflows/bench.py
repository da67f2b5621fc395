"""Carries out a plan by the real engine, one move at a time, in this thread: which move comes next is given as numbers.

A message is claimed, then begun (its step is called), then committed, and anything may happen between: other messages
move, an operator acts, the worker dies, its lease runs out. What must be true at all times is looked at at each move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from localqueue.message import QueueMessage
from localqueue.stores.port import DELAYED, INFLIGHT, Lease, LeaseRequest, StoredMessage
from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.testing import Clock
from localqueue.workers.exchange import Exchange
from localqueue.workers.job import Job, with_job
from localqueue.workers.outcome import Call, Outcome, as_failure, drive
from localqueue.workflows import Run
from localqueue.workflows.errors import RunEnded, StepRefused, WorkflowError
from localqueue.workflows.records import ENDED
from localqueue.workflows.suspension import WITHOUT_END, Suspended
from localqueue.workflows.work import read_work
from tests.workflows.reference import Plan
from tests.workflows.stage import Died, Stage
from tests.workflows.watch import Watch

LEASE = 5.0
ROOT = "run"
EXPECTED = (ConnectionError, ModuleNotFoundError, StepRefused, Suspended)


class JobHere(Job):
    """Its time is that of the clock which the test moves."""

    @property
    def now(self) -> float:
        return self._queue.store.now()


class Held:
    """A message in the hands of a worker. Once begun it has an outcome, which may be committed."""

    def __init__(self, message: QueueMessage[Any]) -> None:
        self.message = message
        self.work = read_work(message.value)
        self.outcome: Outcome | None = None
        self.calls = False  # whether a function of the user was called

    @property
    def may_be_lost(self) -> bool:
        """Whether its worker may die beside what the plan has: that uses up no try of a function."""
        return not self.calls and self.outcome is not None and self.outcome.state != "released"


class Meddled:
    """A store in whose calls other things happen first."""

    def __init__(self, store: Any, names: Sequence[str], meddle: Callable[[], None]) -> None:
        self._store = store
        self._names = names
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            self._meddle()
        return getattr(self._store, name)


class Bench:
    """The one worker and the one operator of a run. When the numbers of `moves` are used up, the first of all moves
    that can be made comes next; what is left of `orders` is given when nothing else moves."""

    def __init__(
        self, store: MemoryQueueStore, clock: Clock, plan: Plan, moves: Sequence[int], orders: Sequence[str]
    ) -> None:
        self.store, self.clock, self.plan = store, clock, plan
        self.stage = Stage(plan, store)
        self.watch = Watch(plan, store, self.stage)
        self.history = self.watch.history
        self._moves, self._orders = list(reversed(moves)), list(reversed(orders))
        self._held: list[Held] = []
        self._ghosts: list[Held] = []
        self._busy = self._committing = False
        self._losses = 3  # workers that die with a message for which no function is called
        workflow = self.stage.workflow
        tasks: Any = workflow.worker(store, lease_timeout=LEASE).tasks
        tasks.history.store = Meddled(store, ("record",), self._meddle_with_commit)
        crews = {name: tasks.crew(name, "threads", concurrency=1) for name in tasks.queues}
        self._crews = dict(sorted(crews.items()))
        self._deliveries = {name: crew.new_delivery() for name, crew in crews.items()}
        self.run = workflow.start(store, [plan.name], run_id=ROOT)
        self._operator = Run(
            Meddled(store, ("commit", "requeue", "cancel_run", "run_messages"), self._meddle),  # type: ignore[arg-type]
            ROOT,
            workflow,
        )

    # moving

    def work(self) -> None:
        """Move until nothing moves any more, whoever has to act first."""
        while self.move() or self._go_on() or self._give_order():
            pass

    def move(self, *, orders: bool = True) -> bool:
        """One move of some worker or operator; False when no worker has anything to do."""
        begun = [one for one in self._held if one.outcome is not None]
        todo: list[Callable[[], object]] = [lambda one=one: self._commit(one) for one in begun]
        todo += [lambda one=one: self._begin(one) for one in self._held if one.outcome is None]
        if len(self._held) < 4:
            todo += [lambda name=name: self._claim(name) for name in self._crews if self._has_ready(name)]
        has_work = bool(todo)
        todo += [lambda one=one: self._haunt(one) for one in self._ghosts if self._is_ghost(one)]
        todo += [lambda one=one: self._lose(one) for one in begun if self._losses and one.may_be_lost]
        if self._moves and self._orders and orders and self._pick(6) == 1:
            todo.append(self._give_order)
        if self._moves and has_work:
            todo.append(self._go_on)
        if not todo:
            return False
        todo[self._pick(len(todo))]()
        self.watch.look()
        return True

    def _pick(self, count: int) -> int:
        return self._moves.pop() % count if self._moves else 0

    def _meddle(self) -> None:
        if self._busy or not self._moves:
            return
        self._busy = True
        try:
            for _ in range(self._pick(3)):
                self.move(orders=False)
        finally:
            self._busy = False

    def _meddle_with_commit(self) -> None:
        if self._committing:
            self._meddle()

    def _has_ready(self, queue: str) -> bool:
        return self.store.stats(queue).ready > 0

    def _claim(self, queue: str) -> None:
        desk = self._crews[queue].queue.desk
        for stored in desk.claim(LeaseRequest(queue, timeout=LEASE, leased_by="bench")):
            message = desk.unpack(stored)
            assert message is not None
            self._held.append(Held(message))

    def _begin(self, held: Held) -> None:
        crew = self._crews[held.message.queue]
        job = JobHere(crew.queue, held.message, time.monotonic())
        steps = self._deliveries[held.message.queue].steps(job, Call(with_job, (job, crew.handler, held.message.value)))
        self.stage.late = False
        try:
            call = next(steps)
            held.calls = True
            try:
                result = call.function(*call.args, **call.kwargs)
            except Died:
                steps.close()
                self._held.remove(held)
                return
            except BaseException as error:
                self.stage.require(isinstance(error, EXPECTED), repr(error))
                steps.throw(as_failure(error))
            else:
                steps.send(result)
        except StopIteration as done:
            held.outcome = done.value
        if self.stage.late:
            self._held.remove(held)
            self._ghosts.append(held)

    def _commit(self, held: Held) -> None:
        self._held.remove(held)
        self.advance(0.001)
        assert held.outcome is not None
        with self._commits():
            self._exchange(held).settle([held.outcome])

    def _exchange(self, held: Held) -> Exchange:
        name = held.message.queue
        return Exchange.for_one_message(
            self._crews[name].queue, self._deliveries[name], settled=self.watch.settled, run_steps=drive
        )

    @contextmanager
    def _commits(self) -> Iterator[None]:
        before, self._committing = self._committing, True
        try:
            yield
        finally:
            self._committing = before

    def _lose(self, held: Held) -> None:
        self._losses -= 1
        self._held.remove(held)

    def _is_ghost(self, held: Held) -> bool:
        found = self.store.get(held.message.queue, held.message.id)
        return found is None or found.state != INFLIGHT or found.attempts != held.message.attempts

    def _haunt(self, held: Held) -> None:
        """A worker that was taken for dead commits after all."""
        self._ghosts.remove(held)
        assert held.outcome is not None
        self._exchange(held).settle([held.outcome])
        self.stage.require(held.outcome.state == "lost", f"{held.work} was committed without a lease")

    def _go_on(self) -> bool:
        """Let the time come at which something is due; False when nothing is."""
        now = self.store.now()
        due = [one.available_at for one in self.messages() if one.state == DELAYED]
        in_hand = {one.message.id for one in self._held}
        due += [one.leased_until or now for one in self.messages() if one.state == INFLIGHT and one.id not in in_hand]
        due = [at for at in due if at - now < WITHOUT_END / 2]
        if not due:
            return False
        self.advance(max(min(due) - now, 0.0) + 0.0001)
        return True

    def advance(self, seconds: float) -> None:
        while seconds > 0:
            part = min(seconds, LEASE / 3)
            self.clock.advance(part)
            seconds -= part
            leases = [Lease(one.message.queue, one.message.id, one.message.attempts) for one in self._held]
            self.store.renew(leases, timeout=LEASE)

    def messages(self) -> list[StoredMessage]:
        return [one for run_id in self.store.runs() for one in self.store.run_messages(run_id)]

    # operators

    def _give_order(self) -> bool:
        """The next order; False when there is none."""
        if self._orders:
            self.obey(self._orders.pop())
            return True
        return False

    def obey(self, order: str) -> bool:
        """False when the run refuses it as it stands."""
        try:
            match order.split(" ")[0]:
                case "pause":
                    self._operator.pause()
                case "resume":
                    self._operator.resume()
                case "retry":
                    self._operator.retry()
                case "signal":
                    self.signal(order.removeprefix("signal "))
                case "cancel" | "undo":
                    if self._operator.cancel(compensate=order == "undo"):
                        self.stage.called_off.add(order)
        except WorkflowError as error:
            self.stage.require(order != "cancel", f"{order}: {error}")
            self.stage.require(not isinstance(error, RunEnded) or self.state() in ENDED, f"{order}: {error}")
            return False
        return True

    def retry(self) -> bool:
        """Retry the run if it has failed, or else one that it has started and that failed while it was undone; False
        when none can be."""
        if self.state() == "failed" and self.obey("retry"):
            return True
        undone = [run_id for run_id in self.store.runs() if self.state(run_id) == "failed" and self._undoes(run_id)]
        return bool(undone) and Run(self.store, undone[0]).retry() > 0

    def _undoes(self, run_id: str) -> bool:
        steps = self.history.steps(run_id)
        return any(parts[0].startswith("undo:") and kept.value.state == "failed" for parts, kept in steps)

    def signal(self, name: str) -> bool:
        """To whichever runs may wait for it; False when all have it."""
        sent = False
        for run_id in self.store.runs():
            if name not in self.watch.plan_of(run_id).by_name:
                continue
            if self.state(run_id) not in ENDED and not self.history.signals(run_id, name).value.sent:
                Run(self.store, run_id).signal(name, f"to {name}")
                sent = True
        return sent

    def state(self, run_id: str = ROOT) -> str:
        return self.history.state(run_id).value.state
