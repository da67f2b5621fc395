"""kill -9 at every edge of every kind of commit: what was confirmed stays, and nothing is half done."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localqueue.stores.port import LeaseRequest
from tests.crash.children import Child, run_scenario
from tests.crash.picture import picture
from tests.crash.scenarios import SCENARIOS
from tests.crash.stores import OPENERS, Clock, copy_of, open_store, watch_edges

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess]


class Edge(NamedTuple):
    """One place where the process dies: in which call, and whether that call's work must then be there."""

    name: str
    nth: int
    step: int
    first: bool
    last: bool

    def allowed(self, pictures: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the store may hold after a kill here. Only between two transactions of one call it may be either."""
        before, after = pictures[self.step : self.step + 2]
        if self.name == "committed":
            return [after] if self.last else [before, after]
        return [before] if self.first else [before, after]


def edges_of(kind: str, path: Path, now: float, name: str, given: Any) -> list[Edge]:
    """The edges that a run of the scenario passes."""
    passed: list[list[str]] = [[]]
    with open_store(kind, path, clock=Clock(now)) as store:
        watch_edges(store, lambda edge: passed[-1].append(edge))
        for _ in SCENARIOS[name].steps(store, given):
            passed.append([])
    edges, seen = [], {"begun": 0, "applied": 0, "committed": 0}
    for step, names in enumerate(passed[:-1]):
        for position, edge in enumerate(names):
            seen[edge] += 1
            edges.append(Edge(edge, seen[edge], step, position < 3, position == len(names) - 1))
    return edges


def pictures_of(kind: str, path: Path, now: float, name: str, given: Any) -> list[dict[str, Any]]:
    """What the store holds before, between and after the calls of the scenario."""
    with open_store(kind, path, clock=Clock(now)) as store:
        return [picture(store), *(picture(store) for _ in SCENARIOS[name].steps(store, given))]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_kill_at_any_edge_leaves_each_call_wholly_done_or_wholly_undone(kind: str, name: str, tmp_path: Path) -> None:
    clock = Clock()
    original = tmp_path / "original"
    with open_store(kind, original, clock=clock) as store:
        given = SCENARIOS[name].prepare(store, clock)
    edges = edges_of(kind, copy_of(original, tmp_path / "rehearsed"), clock.now, name, given)
    pictures = pictures_of(kind, copy_of(original, tmp_path / "pictured"), clock.now, name, given)
    assert {edge.name for edge in edges} == {"begun", "applied", "committed"}
    assert all(before != after for before, after in pairwise(pictures))

    for edge in edges:
        path = copy_of(original, tmp_path / f"{edge.name}-{edge.nth}")
        child = Child(run_scenario, kind, str(path), clock.now, name, given, edge.name, edge.nth)
        assert child.reports() == list(range(edge.step)), edge
        assert child.exit_code == -signal.SIGKILL, edge
        with open_store(kind, path, clock=Clock(clock.now)) as store:
            assert picture(store) in edge.allowed(pictures), edge
            assert store.check().problems == (), edge
            store.put_one("probe", "alive", None)
            (probe,) = store.lease(LeaseRequest("probe"))
            assert store.ack_one("probe", probe.id, probe.attempts)
