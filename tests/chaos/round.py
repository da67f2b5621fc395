"""One round: clients come, work and die while things break; then all is mended, drained and judged."""

from __future__ import annotations

import heapq
import itertools
import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import break_something
from tests.chaos.history import Final, Held, read_folder
from tests.chaos.nursery import Child
from tests.chaos.plan import Onset, Plan, Recruit
from tests.chaos.scene import Scene
from tests.chaos.verdicts import Violation, judge
from tests.chaos.workload import NAMESPACES

#: A killed client's leases have ended, and all is delivered, within this time.
DRAINED_WITHIN = 60.0
_LIVES_ON = 0.3
_SEEN_TO_DIE = 60.0


@dataclass
class Outcome:
    """What came of a round."""

    plan: Plan
    folder: Path
    operations: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    seconds: float = 0.0


class Round:
    def __init__(self, scene: Scene, plan: Plan) -> None:
        self.scene = scene
        self.plan = plan
        self.folder = scene.new_folder(f"round-{plan.number}")
        self._namespace = f"{plan.seed}-{plan.number}"
        self._recruits: dict[int, Recruit] = {}
        self._numbers = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._mends: list[Callable[[], None]] = []
        self._violations: list[Violation] = []
        self._held_up = 0.0  # seconds that the start of a server took

    def run(self) -> Outcome:
        began = time.monotonic()
        for onset in self.plan.onsets:
            self._at(began + onset.at, lambda onset=onset: self._break(onset))  # type: ignore[misc]
        while time.monotonic() < (end := began + self.plan.seconds + self._held_up):
            while len(self.scene.nursery.children) < self.plan.crew:
                self._hire()
            self._wait(end)
        self._end()
        final = self._finish()
        operations = read_folder(self.folder)
        if final is not None:
            self._violations += judge(operations, final, self.plan.rules)
        if not self._violations:
            shutil.rmtree(self.folder)
        return Outcome(
            self.plan,
            self.folder,
            len(operations),
            Counter(one.answer for one in operations),
            self._violations,
            time.monotonic() - began,
        )

    # clients

    def _hire(self) -> None:
        recruit = self.plan.recruit(next(self._numbers))
        place = self.scene.place(f"{self._namespace}-{recruit.letter}", proxied=recruit.proxied)
        child = self.scene.nursery.hire(
            "client",
            place=place,
            letter=recruit.letter,
            who=recruit.who,
            seed=self.plan.name,
            folder=str(self.folder),
            areas=self.plan.chosen,
            point=recruit.point,
            nth=recruit.nth,
            acts=recruit.acts,
            ahead=recruit.ahead,
            clock=self.scene.clock,
            full=self.scene.is_full,
            journal=recruit.letter == self.plan.journalled,
        )
        self._recruits[child.number] = recruit
        if recruit.early:
            self._seal(child, recruit)
        else:
            child.on_ready = lambda: self._seal(child, recruit)

    def _seal(self, child: Child, recruit: Recruit) -> None:
        """From now on a client's time runs out."""
        end = time.monotonic() + recruit.after
        if recruit.fate == "kill":
            self._at(end, lambda: self._kill(child))
        elif recruit.fate == "stop":
            self._at(end, lambda: self._stop(child, recruit.pause))
        elif recruit.fate == "point":
            self._at(end + self.plan.seconds / 2, lambda: self._kill(child))  # it may not come to its point

    def _kill(self, child: Child) -> None:
        if child.pid is None and child.status is None:
            self._at(time.monotonic() + 0.02, lambda: self._kill(child))
        child.send(signal.SIGKILL)

    def _stop(self, child: Child, pause: float) -> None:
        """Stop a client dead, longer than most leases last, and let it go on."""
        if not child.send(signal.SIGSTOP):
            return
        self.scene.counts["stops"] += 1
        self._at(time.monotonic() + pause, lambda: self._go_on(child))

    def _go_on(self, child: Child) -> None:
        child.send(signal.SIGCONT)
        self._at(time.monotonic() + _LIVES_ON, lambda: self._kill(child))

    def _gone(self, child: Child) -> None:
        """Somebody died, or left. Who leaves in disorder has stacks to show, or an error of its own."""
        recruit = self._recruits.pop(child.number, None)
        if child.signal == signal.SIGKILL:
            self.scene.counts["kills"] += 1
            if recruit is not None and recruit.point is not None and recruit.fate == "point":
                self.scene.counts[f"kills at {recruit.point}"] += 1
        elif child.status:
            who = child.job if recruit is None else recruit.who
            stacks = self.folder / f"{who}.stacks"
            text = stacks.read_text() if stacks.exists() else ""
            kind = "stuck" if text.startswith("Timeout") else "foreign"
            how = f"died of signal {child.signal}" if child.signal else f"ended with status {child.status >> 8}"
            self._violations.append(Violation(kind, f"{who} {how}", (), [text[-6000:] or "no stacks"]))

    # faults

    def _break(self, onset: Onset) -> None:
        mend = break_something(self.scene, onset)
        self._mends.append(mend)

        def mend_it() -> None:
            if mend in self._mends:
                self._mends.remove(mend)
                since = time.monotonic()
                mend()
                self._held_up += time.monotonic() - since

        self._at(time.monotonic() + onset.lasts, mend_it)

    # time

    def _at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._ties), what))

    def _wait(self, deadline: float) -> None:
        """Do what is due, and wait for somebody to go."""
        now = time.monotonic()
        while self._agenda and self._agenda[0][0] <= now:
            heapq.heappop(self._agenda)[2]()
        until = min(deadline, self._agenda[0][0] if self._agenda else deadline)
        for child in self.scene.nursery.look(max(until - time.monotonic(), 0.0)):
            self._gone(child)

    def _end(self) -> None:
        """Mend everything, and kill whoever is left."""
        while self._mends:
            self._mends.pop()()
        deadline = time.monotonic() + _SEEN_TO_DIE
        while self.scene.nursery.children and time.monotonic() < deadline:
            for child in list(self.scene.nursery.children.values()):
                if child.job == "client":
                    child.send(signal.SIGKILL)
            for child in self.scene.nursery.look(0.05):
                self._gone(child)

    # the end

    def _finish(self) -> Final | None:
        """Drain the store; what is left in it."""
        places = {letter: self.scene.place(f"{self._namespace}-{letter}") for letter in NAMESPACES}
        child = self.scene.run(
            "finish",
            timeout=DRAINED_WITHIN * 2 + 30.0,
            look=self._gone,
            places=places,
            folder=str(self.folder),
            seconds=DRAINED_WITHIN,
            clock=self.scene.clock,
            journalled=self.plan.journalled,
        )
        if child.status is None:
            child.send(signal.SIGUSR1)  # write your stacks
            self.scene.nursery.look(1.0)
            child.send(signal.SIGKILL)
            text = (self.folder / "finish.stacks").read_text()[-6000:]
            self._violations.append(Violation("stuck", "the store can not be drained", (), [text]))
            return None
        told = self.folder / "final.json"
        if child.status or not told.exists():
            self._gone(child)
            return None
        return self._final(told)

    def _final(self, path: Path) -> Final:
        told = json.loads(path.read_text())
        self._violations += (Violation("stuck", text) for text in told["stuck"])
        self.scene.counts["journal entries replayed"] += told["entries"]
        return Final(
            [Held(*one) for one in told["held"]],
            {(namespace, record) for namespace, record in told["records"]},
            {(namespace, queue): count for namespace, queue, count in told["dropped"]},
            told["problems"],
            told["journal"],
        )
