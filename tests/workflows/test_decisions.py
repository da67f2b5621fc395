"""What is decided about a run, from its definition and its records alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from localqueue.stores.port import Edge
from localqueue.workflows import Workflow, decisions, plan
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import StepRefused
from localqueue.workflows.records import RUN_STATES, RunState, StepRecord
from localqueue.workflows.work import Work, read_work


def definition(**steps: Any) -> Definition:
    """Steps by name; each is what it comes after, or the options of it. `decide` is a decision."""
    workflow = Workflow("w")
    for name, options in steps.items():
        options = options if isinstance(options, dict) else {"after": options}
        declare = workflow.decision if name.startswith("decide") else workflow.step
        declare(name=name, **options)(_do)
    return workflow.definition


def _do(ctx: Any) -> None: ...


def _undo(ctx: Any) -> None: ...


def minted() -> Any:
    numbers = iter(range(1000))
    return lambda count: [f"m{next(numbers):03d}" for _ in range(count)]


def work(step: str = "b", phase: Any = "run", **more: Any) -> Work:
    return Work("w", 1, step, phase, **more)


def nothing(name: str) -> StepRecord | None:
    raise AssertionError(f"{name} was looked at")


def records(**states: Any) -> decisions.Look:
    """Records by name: a list of labels is what a decision has chosen, else a state."""
    kept = {
        name: StepRecord("succeeded", chosen=one) if isinstance(one, list) else StepRecord(one)
        for name, one in states.items()
    }
    return kept.get


@pytest.mark.parametrize("phase", ["run", "expand", "item", "gather", "collect", "end", "compensate", "undo"])
@pytest.mark.parametrize("state", RUN_STATES)
@pytest.mark.parametrize("paused", [False, True])
def test_work_is_done_only_while_its_run_goes_its_way(phase: str, state: str, paused: bool) -> None:
    undoes = phase in ("compensate", "undo")
    said = decisions.verdict(definition(a=[], b=["a"]), work(phase=phase), RunState(state, paused=paused), nothing)

    if state in ("succeeded", "cancelled", "compensated"):
        assert said == "drop"
    elif not paused and state == ("compensating" if undoes else "running"):
        assert said == "run"
    else:
        assert said == "hold"


JOIN = {"decide": [], "x": ["decide"], "y": ["decide"]}


@pytest.mark.parametrize(
    ("needs", "seen", "said"),
    [
        ("any", {"x": "succeeded", "y": "succeeded"}, "run"),
        ("any", {"x": "skipped", "y": "succeeded"}, "run"),
        ("any", {"x": "skipped", "y": "skipped"}, "skip"),
        ("all", {"x": "succeeded", "y": "succeeded"}, "run"),
        ("all", {"x": "skipped", "y": "succeeded"}, "skip"),
    ],
)
def test_a_join_runs_when_any_or_all_of_what_it_comes_after_has_run(needs: str, seen: Any, said: str) -> None:
    joined = definition(**JOIN, join={"after": ["x", "y"], "needs": needs})

    assert decisions.verdict(joined, work("join"), RunState(), records(**seen)) == said


@pytest.mark.parametrize(("chosen", "said"), [(["x"], "run"), (["y"], "skip"), ([], "skip"), (["x", "y"], "run")])
def test_a_branch_runs_when_its_label_was_chosen(chosen: list[str], said: str) -> None:
    assert decisions.verdict(definition(**JOIN), work("x"), RunState(), records(decide=chosen)) == said


def test_a_step_below_two_decisions_runs_only_when_no_one_that_ran_decided_against_it() -> None:
    both = definition(
        decide_1=[], decide_2=[], x={"after": ["decide_1", "decide_2"], "on": "go"}, z=["decide_1", "decide_2"]
    )

    def said(one: Any, other: Any) -> str:
        return decisions.verdict(both, work("x"), RunState(), records(decide_1=one, decide_2=other))

    assert said(["go"], ["go"]) == "run"
    assert said(["go"], ["z"]) == "skip"
    assert said(["go"], "skipped") == "run"
    assert said("skipped", "skipped") == "skip"


def test_a_skipped_fan_out_is_not_collected() -> None:
    fans = definition(decide=[], x={"after": ["decide"], "each": lambda ctx: []}, y=["decide"])

    assert decisions.verdict(fans, work("x", "collect"), RunState(), records(x="skipped")) == "skip"
    assert decisions.verdict(fans, work("x", "collect"), RunState(), records(x="running")) == "run"


def test_a_step_above_which_nothing_is_recorded_of_is_refused_by_name() -> None:
    with pytest.raises(StepRefused, match="'x' comes after 'decide', of which nothing is recorded"):
        decisions.verdict(definition(**JOIN), work("x"), RunState(), records())


def test_steps_that_no_decision_is_above_are_not_looked_at() -> None:
    assert decisions.verdict(definition(a=[], b=["a"]), work("b"), RunState(), nothing) == "run"


@pytest.mark.parametrize(
    ("returned", "labels"),
    [(None, []), ("x", ["x"]), (["y", "x", "y"], ["y", "x"]), (("x",), ["x"]), ({"y", "x"}, ["x", "y"])],
)
def test_a_decision_returns_one_branch_or_several_or_none(returned: Any, labels: list[str]) -> None:
    joined = definition(**JOIN)

    assert decisions.chosen(joined, joined.steps["decide"], returned) == labels


def test_a_decision_may_return_the_steps_themselves() -> None:
    labelled = definition(decide=[], x={"after": ["decide"], "on": "fast"}, y=["decide"])

    assert decisions.chosen(labelled, labelled.steps["decide"], labelled.steps["x"]) == ["fast"]


@pytest.mark.parametrize(
    ("returned", "said"),
    [(7, "returned 7; it returns the branch"), ("z", "chose 'z', which is none of its branches: 'x', 'y'"),
     (["x", 1], "returned"), (["x", "y"], "is exclusive and chose 2 branches")],
)  # fmt: skip
def test_what_a_decision_can_not_choose_is_refused(returned: Any, said: str) -> None:
    one = definition(decide={"exclusive": True}, x=["decide"], y=["decide"])

    with pytest.raises(StepRefused, match=said):
        decisions.chosen(one, one.steps["decide"], returned)


def test_a_run_ends_with_its_only_last_step_or_with_a_message_behind_several() -> None:
    one = definition(a=[], b={"after": ["a"], "each": "a"})
    several = definition(a=[], b=["a"], c=["a"])

    assert [decisions.ends_run(one, work("b", phase)) for phase in ("expand", "item", "gather", "collect")] == [
        False, False, False, True,
    ]  # fmt: skip
    assert not decisions.ends_run(one, work("a"))
    assert not decisions.ends_run(several, work("b"))
    assert decisions.ends_run(several, work("-", "end"))
    assert decisions.ends_run(one, work("a", "undo", last=True)) and not decisions.ends_run(one, work("a", "undo"))


def test_a_run_whose_last_step_is_done_has_succeeded_unless_it_was_called_off_meanwhile() -> None:
    assert decisions.ended(RunState(), undoing=False) == RunState("succeeded")
    for state in RUN_STATES[1:]:
        assert decisions.ended(RunState(state), undoing=False) is None


def test_only_what_undoes_a_run_makes_it_undone() -> None:
    undone = decisions.ended(RunState("compensating", step="a", error={"type": "E"}, calls_off=True), undoing=True)

    assert undone == RunState("compensated", step="a", error={"type": "E"}, calls_off=True)
    assert decisions.ended(RunState(), undoing=True) is None


def test_a_retry_changes_a_failed_run_alone() -> None:
    assert decisions.retried(RunState("failed", step="a", error={"type": "E"}), undoing=False) == RunState()
    undoing = decisions.retried(RunState("failed", step="a", error={"type": "E"}, calls_off=True), undoing=True)
    assert undoing == RunState("compensating", step="a", error={"type": "E"}, calls_off=True)
    for state in set(RUN_STATES) - {"failed"}:
        assert decisions.retried(RunState(state), undoing=False) is None


def test_the_messages_of_a_run_come_after_each_other_as_its_steps_do() -> None:
    started = plan.start(definition(a=[], b=["a"], c=["a"], d=["b", "c"]), "r", minted())

    assert [(one.id, one.after) for one in started.messages] == [
        ("m000", ()), ("m001", ("m000",)), ("m002", ("m000",)), ("m003", ("m001", "m002")),
    ]  # fmt: skip
    assert (started.closing, started.keep_ids) == ("m003", False)
    assert {one.run_id for one in started.messages} == {"r"}


def test_several_last_steps_are_followed_by_the_message_that_ends_the_run() -> None:
    started = plan.start(definition(a=[], b=["a"], c=["a"]), "r", minted())

    assert [one.phase for one in works(started.messages)] == ["run", "run", "run", "end"]
    assert started.messages[-1].after == ("m001", "m002")
    assert started.closing == started.messages[-1].id


def test_a_fan_out_is_two_messages_and_what_comes_after_it_waits_for_the_second() -> None:
    started = plan.start(definition(a=[], b={"each": "a"}, c=["b"]), "r", minted())

    assert [(one.step, one.phase, one.value) for one in works(started.messages)] == [
        ("a", "run", None), ("b", "expand", "m002"), ("b", "collect", None), ("c", "run", None),
    ]  # fmt: skip
    assert [one.after for one in started.messages] == [(), ("m000",), ("m001",), ("m002",)]
    assert started.keep_ids


def test_a_fork_has_the_messages_of_its_steps_alone() -> None:
    started = plan.start(definition(a=[], b=["a"], c=["a", "b"]), "r", minted(), only={"b", "c"})

    assert [one.step for one in works(started.messages)] == ["b", "c"]
    assert [one.after for one in started.messages] == [(), ("m000",)]


def test_items_are_gathered_before_the_fan_out_is_collected_and_no_items_need_nothing() -> None:
    fans = definition(a=[], b={"each": "a"})
    added = plan.fan_out(fans, fans.steps["b"], "r", ["p", "q"], "collect", minted())

    assert [(one.phase, one.item, one.value) for one in works(added.messages)] == [
        ("item", 0, "p"), ("item", 1, "q"), ("gather", None, None),
    ]  # fmt: skip
    assert added.messages[-1].after == ("m000", "m001")
    assert added.edges == [Edge("m002", "collect")]
    assert plan.fan_out(fans, fans.steps["b"], "r", [], "collect", minted()) == ([], [])


def test_what_is_done_is_undone_the_last_first_one_after_the_other() -> None:
    undoes = {"compensate": _undo}
    saga = definition(
        a=undoes, b={"after": ["a"], **undoes}, c=["b"], d={"each": "c", **undoes}, e={"after": ["d"], **undoes}
    )
    done = [
        ("a", None, StepRecord("succeeded"), 1.0),
        ("b", None, StepRecord("succeeded"), 1.0),  # at the same time: what came after goes first
        ("c", None, StepRecord("succeeded"), 2.0),  # which nothing undoes
        ("d", None, StepRecord("succeeded", count=3), 5.0),  # its items are what was done
        ("d", 0, StepRecord("succeeded", item="p"), 4.0),
        ("d", 1, StepRecord("succeeded", item="q"), 3.0),
        ("d", 2, StepRecord("failed"), 3.0),
        ("e", None, StepRecord("skipped"), 6.0),
        ("undo:b", None, StepRecord("failed"), 7.0),
    ]
    messages = plan.undo_chain(saga, "r", done, minted())

    assert [(one.step, one.item, one.value, one.last) for one in works(messages)] == [
        ("d", 0, "p", False), ("d", 1, "q", False), ("b", None, None, False), ("a", None, None, True),
    ]  # fmt: skip
    assert [one.after for one in messages] == [(), ("m000",), ("m001",), ("m002",)]


def test_a_run_has_one_message_at_a_time_that_finds_out_what_is_to_be_undone() -> None:
    one, other = (plan.compensator("w", 1, "home", "r", minted()) for _ in range(2))

    assert one.dedupe_key == other.dedupe_key is not None
    assert one.queue == "home"


def works(messages: Any) -> Iterator[Work]:
    return (read_work(msgspec.json.decode(one.payload)) for one in messages)
