"""What is wrong with a workflow is said when it is declared, with the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localqueue.workflows import InvalidWorkflow, Workflow, WorkflowError


def nothing(ctx: Any) -> None: ...


async def later(ctx: Any) -> None: ...


def items(ctx: Any) -> Any:
    yield 1


def of(*steps: tuple[str, dict[str, Any]], decision: str | None = None, **choice: Any) -> Callable[[], None]:
    """Declares these steps, and has the whole checked."""

    def declare() -> None:
        made = Workflow("order")
        for name, options in steps:
            if name == decision:
                made.decision(name=name, **options, **choice)(nothing)
            else:
                made.step(name=name, **options)(nothing)
        made.validate()

    return declare


def step(**options: Any) -> Callable[[], object]:
    return lambda: Workflow("order").step(**options)(nothing)


def twice() -> None:
    made = Workflow("order")
    made.gate("a")
    made.gate("a")


def late() -> None:
    made = Workflow("order")
    made.gate("a")
    made.validate()
    made._started = True
    made.gate("b")


def own_child() -> None:
    made = Workflow("order")
    made.child("again", made)


def flow_beside_steps() -> None:
    made = Workflow("order")
    made.flow(name="main")(later)
    made.gate("a")
    made.validate()


def step_of_step() -> None:
    made = Workflow("order")
    made.step(made.step(nothing))  # type: ignore[arg-type]


EXCLUSIVE = of(
    ("which", {}),
    ("left", {"after": ["which"]}),
    ("right", {"after": ["which"]}),
    ("join", {"after": ["left", "right"], "needs": "all"}),
    decision="which",
    exclusive=True,
)

WRONG = {
    "cycle": (of(("a", {"after": ["c"]}), ("b", {"after": ["a"]}), ("c", {"after": ["b"]})), "has a cycle: .*→.*→"),
    "itself": (of(("a", {"after": ["a"]})), "'a' can not come after itself"),
    "unknown": (of(("charge", {}), ("b", {"after": ["chrage"]})), "after 'chrage', which it has not; is it 'charge'"),
    "unlike any": (of(("a", {}), ("b", {"after": ["zzz"]})), r"which it has not \(it has a, b\)"),
    "empty": (of(), "has no steps"),
    "join that never runs": (EXCLUSIVE, "'join' can never run: it needs branches 'left' and 'right' of .* use needs="),
    "branch that is none": (
        of(("which", {}), ("a", {"after": ["which"]}), decision="which", branches=["b"]),
        "'a' can never run: it is on branch 'a' of decision 'which', which chooses among 'b'",
    ),
    "decides nothing": (of(("which", {}), decision="which"), "nothing comes after decision 'which'"),
    "not above": (
        of(("a", {}), ("b", {}), ("c", {"after": ["b"], "each": "a"})),
        r"for each item of 'a', and does not come after it; add after=\['a'\]",
    ),
    "twice": (twice, "has a step 'a' already; give one of them a name="),
    "too late": (late, "was used before step 'b' was declared"),
    "its own child": (own_child, "can not be its own child"),
    "flow beside steps": (flow_beside_steps, r"has the flow 'main' and steps beside it \(a\)"),
    "flow that is none": (lambda: Workflow("order").flow(nothing), "async def nothing"),
    "generator": (lambda: Workflow("order").step(items), "is a generator, which nobody would iterate"),
    "step of a step": (step_of_step, "is a step already"),
    "needs": (step(needs="some"), "needs is 'any' or 'all' .* not 'some'"),
    "batch": (step(batch=5), "batch= says how many items of each="),
    "version": (lambda: Workflow("order", version=0), "1 or more, not 0"),
    "name of a workflow": (lambda: Workflow("a@b"), "no '@' and no '/', unlike 'a@b'"),
    "name of a step": (step(name="undo:x"), "no step can be called 'undo:x'"),
    "no name": (lambda: Workflow(""), "1 to 128 printable characters"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_workflow_that_no_run_could_follow_is_refused_by_name(wrong: str) -> None:
    declare, said = WRONG[wrong]
    with pytest.raises(InvalidWorkflow, match=said):
        declare()


MISTAKEN = {
    "after": (step(after="a"), TypeError, r"after= takes a list of steps, not 'a'; write after=\[...\]"),
    "after nothing known": (step(after=[1]), TypeError, "not 1"),
    "option": (step(retires=3), TypeError, "unexpected keyword argument 'retires'; .*retries"),
    "retries": (step(retries=-1), ValueError, "retries cannot be negative"),
    "timeout": (step(timeout=0), ValueError, "timeout must be greater than zero"),
    "executor": (step(executor="fibres"), ValueError, "not 'fibres'"),
    "rate": (step(rate="often"), ValueError, "often"),
    "key": (step(key=len), ValueError, "pass one of them too"),
    "each": (step(each=3), TypeError, "each= is a step above"),
    "compensate": (step(compensate="refund"), TypeError, "compensate= is a function, not 'refund'"),
    "branches": (
        lambda: Workflow("order").decision(branches="ab")(nothing),
        TypeError,
        r"write branches=\['ab'\]",
    ),
    "timer": (lambda: Workflow("order").timer("t", -1), ValueError, "seconds"),
    "child": (lambda: Workflow("order").child("c", nothing), TypeError, "is a Workflow, not"),  # type: ignore[arg-type]
    "function": (lambda: Workflow("order").step(3), TypeError, "made of a function, not of 3"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("mistake", MISTAKEN)
def test_a_wrong_argument_is_named(mistake: str) -> None:
    declare, kind, said = MISTAKEN[mistake]
    with pytest.raises(kind, match=said):
        declare()


def test_a_join_of_exclusive_branches_may_run_with_any_of_them() -> None:
    made = Workflow("order")
    made.decision(name="which", exclusive=True, branches=["left", "right"])(nothing)
    made.gate("one", after=["which"], on="left")
    made.gate("two", after=["which"], on="right")
    made.gate("join", after=["one", "two"])
    made.validate()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"identity": "some"}, "identity must be 'new' or 'input', not 'some'"),
        ({"identity": "input", "run_id": "a"}, "pass run_id= or identity="),
        ({"run_id": ""}, "run_id"),
        ({"run_id": "a\x1fb"}, "unit separator"),
    ],
)
def test_a_run_that_can_not_be_started_so_is_refused_before_anything_is_stored(
    options: dict[str, Any], said: str
) -> None:
    made = Workflow("order")
    made.gate("a")
    with pytest.raises(ValueError, match=said):
        made.start("sqlite:////nowhere/at/all", **options)


def test_an_input_that_would_come_back_otherwise_is_refused() -> None:
    made = Workflow("order")
    made.gate("a")
    with pytest.raises(WorkflowError, match="input of workflow 'order' can not be kept"):
        made.start("sqlite:////nowhere/at/all", {1, 2})


def test_brokers_are_refused_for_want_of_a_commit() -> None:
    made = Workflow("order")
    made.gate("a")
    with pytest.raises(WorkflowError, match="a broker has no such commit"):
        made.start("amqp://localhost/")
