"""What a history proves, and what it leaves open: an operation that nobody heard the end of happened, or did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.history import (
    NEVER,
    Bound,
    Claim,
    Ending,
    Final,
    Handed,
    Held,
    Notebook,
    Operation,
    Pages,
    PagesOnDisk,
    Put,
    Stored,
    read,
    read_folder,
)
from tests.chaos.verdicts import Rules, judge


class History:
    """Operations one after the other, a second each, of one client."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def put(self, *names: str, answer: str = "ok", **options: Any) -> History:
        puts = tuple(Put("jobs-to-do", name, **options) for name in names)
        return self._add("put", answer, puts=puts, stored=tuple(Stored("stored", f"id-{name}") for name in names))

    def claim(self, *names: str, token: int = 1, timeout: float = 1.0, at: float | None = None) -> History:
        until = (len(self.operations) if at is None else at) + timeout
        handed = tuple(Handed(name, "jobs-to-do", f"id-{name}", token, token, until, None) for name in names)
        return self._add("claim", "ok", claim=Claim("jobs-to-do", 5, timeout, None), handed=handed)

    def ack(self, name: str, *, token: int = 1, answer: str = "ok", done: bool = True) -> History:
        return self._add("ack", answer, endings=(Ending("jobs-to-do", name, "ack", token),), ended=(done,))

    def ack_and_put(self, name: str, new: str) -> History:
        """In one commit, of which nobody heard the end."""
        parts = {"puts": (Put("jobs-to-do", new),), "endings": (Ending("jobs-to-do", name, "ack", 1),)}
        return self._add("ack_and_put", "unknown", **parts)

    def ask(self, verb: str, value: int, **parts: Any) -> History:
        return self._add(verb, "ok", queue="jobs-to-do", value=value, **parts)

    def _add(self, verb: str, answer: str, **parts: Any) -> History:
        start = float(len(self.operations))
        one = Operation("c", len(self.operations), verb, "a", start, answer=answer, end=start + 0.5, **parts)  # type: ignore[arg-type]
        if answer != "ok":
            one.stored, one.ended, one.handed = (), (), ()
            one.end = NEVER if answer == "unknown" else one.end
        self.operations.append(one)
        return self

    def kinds(self, *held: str, dropped: int = 0) -> list[str]:
        """The kinds of violations when these messages are left, and the queue has dropped so many."""
        final = Final([Held("a", "jobs-to-do", name, f"id-{name}", "ready") for name in held])
        final.dropped["a", "jobs-to-do"] = dropped
        return sorted({violation.kind for violation in judge(self.operations, final, Rules())})


def begun() -> History:
    return History().put("x").claim("x")


@pytest.mark.parametrize(
    ("history", "held"),
    [
        (History().put("x"), ["x"]),
        (begun(), ["x"]),
        (begun().ack("x"), []),
        (History().put("x", answer="unknown"), []),
        (History().put("x", answer="unknown"), ["x"]),
        (History().put("x", answer="refused"), []),
        (begun().ack("x", answer="unknown"), []),
        (begun().ack("x", answer="unknown"), ["x"]),
        (begun().ack("x", answer="unknown").claim("x", token=2).ack("x", token=2), []),
        (begun().claim("x", token=2).ack("x", done=False).ack("x", token=2), []),
        (begun().ack("x", answer="unknown").ack("x", done=False), []),
        (History().put("x", "y", answer="unknown"), []),
        (History().put("x", "y", answer="unknown"), ["x", "y"]),
        (History().put("x", "y", answer="unknown").claim("x").ack("x"), ["y"]),
    ],
    ids=lambda value: None,
)
def test_a_store_that_may_have_kept_its_promises_is_cleared(history: History, held: list[str]) -> None:
    assert history.kinds(*held) == []


@pytest.mark.parametrize(
    ("history", "held", "kinds"),
    [
        (History().put("x"), [], ["loss"]),
        (begun(), [], ["loss"]),
        (begun().ack("x", done=False), [], ["loss"]),
        (begun().ack("x"), ["x"], ["doubling"]),
        (begun().ack("x").claim("x", token=2), [], ["doubling"]),
        (begun().claim("x", token=2).ack("x"), [], ["fencing"]),
        (begun().claim("x", token=1), ["x"], ["fencing"]),
        (History().put("x").claim("x", timeout=60.0).claim("x", token=2), ["x"], ["stolen"]),
        (History().put("x", answer="refused"), ["x"], ["ghost"]),
        (History(), ["x"], ["ghost"]),
        (History().put("x", "y", answer="unknown"), ["y"], ["torn"]),
        (History().put("x", "y").claim("x").ack("x"), [], ["loss", "torn"]),
        (History().put("x").put("y").claim("y").claim("x"), ["x", "y"], ["fifo"]),
        (History().put("x", ordering_key="k").put("y", ordering_key="k").claim("y"), ["x", "y"], ["order"]),
        (History().put("x", dedupe_key="k").put("y", dedupe_key="k"), ["x", "y"], ["dedupe"]),
        (History().put("x").put("y", after=("x",)).claim("y"), ["x", "y"], ["dependency"]),
        (History().put("x", ttl=0.1).claim("x"), ["x"], ["limits"]),
        (History().put("x", delay=60.0).claim("x"), ["x"], ["limits"]),
    ],
    ids=lambda value: None,
)
def test_a_broken_promise_is_found_and_named(history: History, held: list[str], kinds: list[str]) -> None:
    assert history.kinds(*held) == kinds


def test_what_a_commit_was_to_ack_is_there_when_it_did_not_happen_unless_its_queue_drops() -> None:
    history = begun().ack_and_put("x", "y")
    assert history.kinds("x") == history.kinds("y") == []
    assert history.kinds() == history.kinds("x", "y") == ["torn"]
    assert history.kinds(dropped=1) == []


def test_a_full_queue_may_hold_more_only_of_what_came_back() -> None:
    def held(*steps: tuple[str, int]) -> list[str]:
        history = History()._add("put", "ok", bound=Bound("jobs-to-do", 2, "reject", None))
        for verb, value in steps:
            history.ask(verb, value)
        return history.kinds()

    assert held(("look", 2)) == []
    assert held(("look", 3)) == ["capacity"]
    assert held(("requeue", 1), ("look", 3)) == []
    assert held(("requeue", 1), ("look", 4)) == held(("look", 3), ("requeue", 1)) == ["capacity"]


def write(notebook: Notebook) -> list[Operation]:
    operations = begun().ack("x").operations
    for one in operations:
        notebook.write(one.asked())
        notebook.write(one.told())
    return operations


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_what_a_killed_client_wrote_is_read_up_to_the_last_whole_line(cut: int, tmp_path: Any) -> None:
    written = write(PagesOnDisk(tmp_path / "c.history"))
    path = tmp_path / "c.history"
    path.write_bytes(path.read_bytes()[: -cut or None])
    *earlier, last = read_folder(tmp_path)
    assert earlier == written[:-1]
    assert (last.asked(), last.answer) == (written[-1].asked(), "unknown" if cut > 1 else "ok")


def test_what_is_kept_in_memory_is_read_as_it_was() -> None:
    pages = Pages()
    written = write(pages)
    assert list(read("c", pages.lines)) == written


def test_a_violation_is_told_with_the_few_operations_that_show_it() -> None:
    history = begun().put("z").claim("x", token=2).ack("x")
    (violation,) = judge(history.operations, Final([Held("a", "jobs-to-do", "z", "id-z", "ready")]), Rules())
    lines: Callable[[], list[str]] = str(violation).splitlines
    assert lines()[0] == "fencing: x: ack with token 1 was accepted although a later lease was held"
    assert [line.split()[4] for line in lines()[1:]] == ["c#0", "c#1", "c#3", "c#4"]
