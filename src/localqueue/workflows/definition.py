"""A workflow as a graph: what is checked of it, and what follows from it."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from localqueue.workflows.errors import InvalidWorkflow
from localqueue.workflows.step import Step


class Definition:
    """The steps of one version of a workflow, checked. Nothing in it changes."""

    def __init__(self, name: str, version: int, home: str, steps: Mapping[str, Step]) -> None:
        self.name = name
        self.version = version
        self.home = home
        self.steps = dict(steps)
        self._check()

    @cached_property
    def dependents(self) -> dict[str, list[str]]:
        """The steps that come directly after each."""
        found: dict[str, list[str]] = {name: [] for name in self.steps}
        for step in self.steps.values():
            for upstream in step.after:
                found[upstream].append(step.name)
        return found

    @cached_property
    def sinks(self) -> list[str]:
        """The steps that nothing comes after."""
        return [name for name, below in self.dependents.items() if not below]

    @property
    def closes(self) -> str | None:
        """The step that ends the run when it is done; None when there are several last ones, and a message that comes
        after all of them ends it."""
        return self.sinks[0] if len(self.sinks) == 1 else None

    @cached_property
    def order(self) -> list[str]:
        """The steps, each behind those it comes after."""
        left = {name: len(step.after) for name, step in self.steps.items()}
        ready = [name for name, count in left.items() if not count]
        for name in ready:
            for below in self.dependents[name]:
                left[below] -= 1
                if not left[below]:
                    ready.append(below)
        return ready

    @cached_property
    def may_be_skipped(self) -> frozenset[str]:
        """The steps that some decision lies above."""
        found: set[str] = set()
        for name in self.order:
            above = self.steps[name].after
            if any(one in found or self.steps[one].kind == "decision" for one in above):
                found.add(name)
        return frozenset(found)

    @cached_property
    def compensates(self) -> bool:
        return any(step.compensate is not None for step in self.steps.values())

    @cached_property
    def shape(self) -> dict[str, Any]:
        return {
            "workflow": self.name,
            "version": self.version,
            "steps": [step.shape() for step in self.steps.values()],
        }

    @cached_property
    def digest(self) -> str:
        """A name for this shape: a run goes on only where the same one is declared."""
        return hashlib.sha256(msgspec.json.encode(self.shape)).hexdigest()[:16]

    @cached_property
    def flow(self) -> Step | None:
        return next((step for step in self.steps.values() if step.kind == "flow"), None)

    def branches_of(self, decision: str) -> dict[str, list[str]]:
        """What a decision can choose: labels, and the steps of each."""
        step, found = self.steps[decision], dict[str, list[str]]()
        for name in self.dependents[decision]:
            found.setdefault(self.steps[name].label, []).append(name)
        for label in step.branches or ():
            found.setdefault(label, [])
        return found

    def below(self, names: Iterable[str]) -> set[str]:
        """These steps and all that come after them, directly or through others."""
        found, new = set[str](), set(names)
        while new:
            found |= new
            new = {below for name in new for below in self.dependents[name]} - found
        return found

    def _check(self) -> None:
        if not self.steps:
            raise InvalidWorkflow(f"workflow {self.name!r} has no steps; declare some with @{self.name}.step")
        if self.flow is not None and len(self.steps) > 1:
            others = ", ".join(name for name in self.steps if name != self.flow.name)
            raise InvalidWorkflow(
                f"workflow {self.name!r} has the flow {self.flow.name!r} and steps beside it ({others}); have the flow "
                "call them with ctx.step, or give one of the two a workflow of its own"
            )
        for step in self.steps.values():
            for upstream in step.after:
                if upstream not in self.steps:
                    raise InvalidWorkflow(
                        f"step {step.name!r} of workflow {self.name!r} comes after {upstream!r}, which it has not"
                        f"{_nearest(upstream, self.steps)}"
                    )
            if isinstance(step.each, str) and step.each not in self._above(step.name):
                raise InvalidWorkflow(
                    f"step {step.name!r} is run for each item of {step.each!r}, and does not come after it; "
                    f"add after=[{step.each!r}]"
                )
        if len(self.order) < len(self.steps):
            raise InvalidWorkflow(f"workflow {self.name!r} has a cycle: {_cycle(self.steps)}")
        self._check_branches()

    def _above(self, name: str) -> set[str]:
        """All that a step comes after, as far as it is known."""
        found, new = set[str](), set(self.steps[name].after)
        while new:
            found |= new
            new = {up for one in new if one in self.steps for up in self.steps[one].after} - found
        return found

    def _check_branches(self) -> None:
        """Refuse steps that no choice of the decisions above them would run."""
        for decision in (step for step in self.steps.values() if step.kind == "decision"):
            below = self.dependents[decision.name]
            if not below:
                raise InvalidWorkflow(f"nothing comes after decision {decision.name!r}, so it decides nothing")
            for name in below:
                label = self.steps[name].label
                if decision.branches is not None and label not in decision.branches:
                    raise InvalidWorkflow(
                        f"step {name!r} can never run: it is on branch {label!r} of decision {decision.name!r}, which "
                        f"chooses among {', '.join(map(repr, decision.branches))}"
                    )
        must: dict[str, frozenset[tuple[str, str]]] = {}
        for name in self.order:
            must[name] = self._conditions(name, must)
            chosen: dict[str, str] = {}
            for decision_name, label in sorted(must[name]):
                other = chosen.setdefault(decision_name, label)
                if other != label and self.steps[decision_name].exclusive:
                    raise InvalidWorkflow(
                        f"step {name!r} can never run: it needs branches {other!r} and {label!r} of decision "
                        f"{decision_name!r}, which chooses one; use needs='any' to join whichever has run"
                    )

    def _conditions(self, name: str, must: Mapping[str, frozenset[tuple[str, str]]]) -> frozenset[tuple[str, str]]:
        """The choices without which a step is skipped."""
        step = self.steps[name]
        own = {(one, step.label) for one in step.after if self.steps[one].kind == "decision"}
        above = [must[one] for one in step.after]
        if not above:
            return frozenset()
        inherited = frozenset.union(*above) if step.needs == "all" else frozenset.intersection(*above)
        return inherited | own


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; is it {near[0]!r}?" if near else f" (it has {', '.join(sorted(known)[:20])})"


def _cycle(steps: Mapping[str, Step]) -> str:
    """One of the cycles, as a path."""
    left = {name: set(step.after) & steps.keys() for name, step in steps.items()}
    free = [name for name, above in left.items() if not above]
    while free:
        for name in free:
            del left[name]
        gone = set(free)
        for above in left.values():
            above -= gone
        free = [name for name, above in left.items() if not above]
    path = [next(iter(left))]
    while (up := min(left[path[-1]])) not in path:
        path.append(up)
    path = [*path[path.index(up) :], up]
    return " → ".join(reversed(path))
