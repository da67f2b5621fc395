"""What must be true of the runs of a plan at each moment, and when nothing moves any more."""

from __future__ import annotations

from collections import Counter

import msgspec

from localqueue.stores.port import DELAYED, INFLIGHT, READY, WAITING, QueueStore, StoredMessage
from localqueue.workers.outcome import Outcome
from localqueue.workflows.history import History
from localqueue.workflows.records import StepRecord
from localqueue.workflows.suspension import is_held
from localqueue.workflows.work import Work, read_work
from tests.workflows.reference import Node, Plan
from tests.workflows.stage import DONE, Stage


class Watch:
    """`done` is what was committed, in that order."""

    def __init__(self, plan: Plan, store: QueueStore, stage: Stage) -> None:
        self.store, self.history = store, History(store)
        self.done: list[tuple[str, Work]] = []
        self._stage = stage
        self._plans = {one.name: one for one in plan.within()}
        self._kept: dict[tuple[str, ...], StepRecord] = {}

    def plan_of(self, run_id: str) -> Plan:
        return self._plans[self.history.header(run_id).workflow]

    def settled(self, outcome: Outcome) -> None:
        message, settle = outcome.message, outcome.settle
        if settle is not None and settle.action == "ack" and outcome.state != "lost":
            assert message.run_id is not None
            self.done.append((message.run_id, read_work(message.value)._replace(value=None)))

    def look(self) -> None:
        for run_id in self.store.runs():
            nodes = self.plan_of(run_id).by_name
            for parts, kept in self.history.steps(run_id):
                self._look_at(run_id, nodes, parts, kept.value)
        twice = [one for one, count in Counter(self.done).items() if count > 1]
        assert not twice, f"committed more than once: {twice}"
        assert not self._stage.broken, self._stage.broken

    def _look_at(self, run_id: str, nodes: dict[str, Node], parts: list[str], record: StepRecord) -> None:
        if record.state not in DONE:
            return
        before = self._kept.setdefault((run_id, *parts), record)
        same = before == record or before.state == record.state == "skipped"  # of a fan-out it is written twice
        assert same, f"{parts} of {run_id} has a second outcome: {before}, then {record}"
        name = parts[0].removeprefix("undo:")
        node = nodes[name]
        call = [*(["undo"] if name != parts[0] else []), *(str(int(one)) for one in parts[1:])]
        has_call = node.kind not in ("gate", "timer", "child") and not (node.kind == "map" and len(parts) == 1)
        if record.state == "succeeded" and (has_call or name != parts[0]):
            did = self._stage.effects[run_id, " ".join([name, *call])]
            assert did, f"{parts} of {run_id} is done without its effect"

    def look_at_the_end(self) -> None:
        """Nothing moves any more: each run has ended, stands still by a word of somebody, or waits for a signal or for
        a run that does."""
        now = self.store.now()
        for run_id in self.store.runs():
            state = self.history.state(run_id).value
            messages = self.store.run_messages(run_id)
            at = f"{run_id} is {state} and has {[read(one) for one in messages]}"
            assert not [one for one in messages if one.state in (INFLIGHT, READY)], at
            if state.state in ("succeeded", "cancelled", "compensated"):
                assert not [one for one in messages if one.state in (DELAYED, WAITING)], at
            elif state.state != "failed" and not state.paused:
                delayed = [one.available_at for one in messages if one.state == DELAYED]
                assert state.state == "running" and not any(is_held(one, now) for one in delayed), at
                assert delayed or self._waits_for_child(run_id), at

    def _waits_for_child(self, run_id: str) -> bool:
        children = [kept.value.child for _, kept in self.history.steps(run_id) if kept.value.state == "running"]
        return any(one is not None and self.history.state(one).value.state == "running" for one in children)


def read(message: StoredMessage) -> tuple[str, Work]:
    return message.state, read_work(msgspec.json.decode(message.payload))
