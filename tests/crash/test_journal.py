"""kill -9 at every edge of every kind of commit, with a journal: it and the state agree, whatever was done."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from localqueue.contracts.replay import replay
from tests.crash.children import Child, run_scenario
from tests.crash.scenarios import SCENARIOS
from tests.crash.stores import OPENERS, Clock, copy_of, open_store
from tests.crash.test_commit_edges import edges_of

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_kill_at_any_edge_leaves_a_journal_that_tells_what_the_store_holds(
    kind: str, name: str, tmp_path: Path
) -> None:
    clock = Clock()
    original = tmp_path / "original"
    with open_store(kind, original, clock=clock) as store:
        store.enable_journal()
        given = SCENARIOS[name].prepare(store, clock)
        before = store.events()
    edges = edges_of(kind, copy_of(original, tmp_path / "rehearsed"), clock.now, name, given)
    assert {edge.name for edge in edges} == {"begun", "applied", "committed"}

    for edge in edges:
        path = copy_of(original, tmp_path / f"{edge.name}-{edge.nth}")
        child = Child(run_scenario, kind, str(path), clock.now, name, given, edge.name, edge.nth)
        child.reports()
        assert child.exit_code == -signal.SIGKILL, edge
        with open_store(kind, path, clock=Clock(clock.now)) as store:
            entries = store.events()
            assert entries[: len(before)] == before, edge
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), edge
            assert replay(entries).differences(store) == [], edge
            if edge.name != "committed" and edge.first and edge.step == 0:
                assert entries == before, edge
            store.put_one("probe", "alive", None)
            assert store.events(after=len(entries))[0].seq == len(entries) + 1
