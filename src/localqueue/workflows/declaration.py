"""Making a step of what it is declared with, or saying what is wrong with that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from localqueue.limits import Limits
from localqueue.policies._limits import require_integer
from localqueue.retry.options import meant
from localqueue.tasks.settings import TaskSettings
from localqueue.tasks.signature import TaskSignature
from localqueue.workflows.errors import InvalidWorkflow
from localqueue.workflows.options import StepOptions
from localqueue.workflows.step import Kind, Step, names_of

_SETTINGS = tuple(TaskSettings.__dataclass_fields__)


def step_of(home: str, function: Callable[..., Any] | None, kind: Kind, name: str, options: dict[str, Any]) -> Step:
    """The step, in the queue `home` unless it names another; what is wrong with its options is an error."""
    settings = TaskSettings(**{one: options.pop(one) for one in _SETTINGS if one in options})
    rate, concurrency, by = (options.pop(one, None) for one in ("rate", "concurrency", "key"))
    if rate is None and concurrency is None and by is not None:
        raise ValueError("key= says what rate= or concurrency= count by; pass one of them too")
    limits = None if rate is None and concurrency is None else Limits(rate=rate, concurrency=concurrency, key=by)
    after = names_of(options.pop("after", ()))
    each, batch = options.pop("each", None), options.pop("batch", None)
    if each is not None:
        if kind != "step":
            raise InvalidWorkflow(f"{name!r} is a {kind}; only a step can run for each item")
        kind = "map"
        if isinstance(each, Step | str):
            each = each.name if isinstance(each, Step) else each
            after = after or (each,)
        elif not callable(each):
            raise TypeError(f"each= is a step above, or a function of the context that returns a list, not {each!r}")
    if batch is not None and (each is None or require_integer("batch", batch) < 1):
        raise InvalidWorkflow(
            f"batch= says how many items of each= a call is for, at least 1; step {name!r} has {batch}"
        )
    needs = options.pop("needs", "any")
    if needs not in ("any", "all"):
        raise InvalidWorkflow(f"needs is 'any' or 'all' of the steps that {name!r} comes after, not {needs!r}")
    label = options.pop("on", None) or name
    compensate = options.pop("compensate", None)
    if compensate is not None and not callable(compensate):
        raise TypeError(f"compensate= is a function, not {compensate!r}")
    branches = options.pop("branches", None)
    if isinstance(branches, str):
        raise TypeError(f"branches= takes a list of labels, not {branches!r}; write branches=[{branches!r}]")
    if kind == "flow" and (after or compensate):
        raise InvalidWorkflow(f"flow {name!r} is all there is of its workflow: it comes after nothing")
    step = Step(
        name=name,
        kind=kind,
        after=after,
        function=function,
        queue=options.pop("queue", None) or home,
        settings=settings,
        limits=limits,
        priority=require_integer("priority", options.pop("priority", 0)),
        compensate=compensate,
        label=label,
        needs=needs,
        branches=None if branches is None else tuple(branches),
        exclusive=bool(options.pop("exclusive", False)),
        each=each,
        batch=batch,
        seconds=options.pop("seconds", 0.0),
        child=options.pop("child", None),
        child_input=options.pop("child_input", None),
        signature=TaskSignature(name, function) if inspect.isroutine(function) else None,  # others have no annotations
    )
    for unknown in options:
        known = (*StepOptions.__annotations__, "branches", "exclusive")
        raise TypeError(f"{kind}() got an unexpected keyword argument {unknown!r}; {meant(unknown, known)}")
    return step


def is_again(known: Step, step: Step) -> bool:
    """Whether the same function was declared once more, as a notebook or a reload does."""
    one, other = known.function, step.function
    if one is None or other is None or known.kind == "timer":
        return False
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def check_cycle(workflow: str, steps: Mapping[str, Step], name: str) -> None:
    """Refuse a step that comes after itself through others."""
    path, seen = [(name, iter(steps[name].after))], {name}
    while path:
        for above in path[-1][1]:
            if above == name:
                cycle = " → ".join(reversed([*(one for one, _ in path), name]))
                raise InvalidWorkflow(f"workflow {workflow!r} has a cycle: {cycle}")
            if above in steps and above not in seen:
                seen.add(above)
                path.append((above, iter(steps[above].after)))
                break
        else:
            path.pop()
