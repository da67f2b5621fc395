"""One step as it was declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from localqueue.limits import Limits
from localqueue.tasks.errors import ResultMisfit
from localqueue.tasks.settings import TaskSettings
from localqueue.tasks.signature import TaskSignature
from localqueue.tasks.values import Misfit, plain
from localqueue.workflows.errors import InvalidWorkflow
from localqueue.workflows.work import NO_STEP, UNDONE

if TYPE_CHECKING:
    from localqueue.workflows.workflow import Workflow

Kind = Literal["step", "decision", "gate", "timer", "map", "child", "flow"]
Needs = Literal["any", "all"]

_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A step of a workflow. `label` is what a decision that it comes after calls it by."""

    name: str
    kind: Kind
    after: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    queue: str
    settings: TaskSettings = field(default_factory=TaskSettings)
    limits: Limits | None = None
    priority: int = 0
    compensate: Callable[..., Any] | None = None
    label: str
    needs: Needs = "any"
    branches: tuple[str, ...] | None = None
    exclusive: bool = False
    each: str | Callable[..., Any] | None = None
    batch: int | None = None
    seconds: float = 0.0
    child: Workflow | None = None
    child_input: Callable[..., Any] | None = None
    signature: TaskSignature | None = None

    def write(self, value: Any) -> Any:
        """What is kept of what the step returned, or an error that says why that can not be."""
        if self.signature is not None:
            return self.signature.write_result(value)
        try:
            return plain(value, Any)
        except Misfit as misfit:
            raise ResultMisfit(f"step {self.name!r} returned what can not be kept: {misfit}") from misfit

    def read(self, written: Any) -> Any:
        return written if self.signature is None else self.signature.read_result(written)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def expands(self) -> bool:
        """Whether the step makes messages of its own before it is done: items, or the run of a child."""
        return self.kind in ("map", "child")

    def shape(self) -> dict[str, Any]:
        """What must not change while runs follow it, as JSON."""
        shape: dict[str, Any] = {"name": self.name, "kind": self.kind, "after": list(self.after)}
        if self.label != self.name:
            shape["on"] = self.label
        if self.needs != "any":
            shape["needs"] = self.needs
        if self.compensate is not None:
            shape["compensates"] = True
        if self.child is not None:
            shape["child"] = f"{self.child.name}@{self.child.version}"
        if isinstance(self.each, str):
            shape["each"] = self.each
        return shape

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now."""
        if self.function is None:
            raise TypeError(f"step {self.name!r} is a {self.kind}, which has no function to call")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Step {self.name} ({self.kind})>"


def checked_name(what: str, name: Any) -> str:
    """The name of a workflow or step, or an error that says what is wrong with it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} is a text, not {name!r}")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidWorkflow(f"the name of a {what} has 1 to {_LONGEST_NAME} printable characters, not {name!r}")
    if what == "workflow" and ("@" in name or "/" in name):
        raise InvalidWorkflow(
            f"the name of a workflow has no '@' and no '/', unlike {name!r}: messages have them between"
        )
    if what == "step" and (name == NO_STEP or name.startswith(UNDONE)):
        raise InvalidWorkflow(f"no step can be called {name!r}; that is the name of what undoes steps")
    return name


def names_of(after: Any) -> tuple[str, ...]:
    """What a step comes after, by name: steps, their names, or the functions they were made of."""
    if isinstance(after, str | Step) or callable(after):
        raise TypeError(f"after= takes a list of steps, not {after!r}; write after=[...]")
    if not isinstance(after, Sequence | set | frozenset):
        raise TypeError(f"after= takes a list of steps, not {after!r}")
    names = []
    for one in after:
        name = one.name if isinstance(one, Step) else one
        if not isinstance(name, str):
            raise TypeError(f"after= takes steps and names of steps, not {one!r}")
        names.append(name)
    return tuple(dict.fromkeys(names))
