"""The processes that get killed. They report over a pipe what returned, and nothing else of them survives."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.crash.scenarios import SCENARIOS
from tests.crash.stores import Clock, kill_at, open_store, watch_edges
from tests.processes import context

DEADLINE = 60.0


class Child:
    """A process that runs `work(connection, *arguments)`."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def reports(self) -> list[Any]:
        """All that the process reported until it ended."""
        return reports_of([self])[0]

    @property
    def exit_code(self) -> int | None:
        self.process.join(DEADLINE)
        return self.process.exitcode


def reports_of(children: list[Child]) -> list[list[Any]]:
    """What each of the processes reported until it ended, read as they go."""
    reports: dict[Connection, list[Any]] = {child.connection: [] for child in children}
    open_ends = set(reports)
    while open_ends:
        ready = wait(open_ends, DEADLINE)
        assert ready, "the processes neither report nor end"
        for end in ready:
            assert isinstance(end, Connection)
            try:
                reports[end].append(end.recv())
            except EOFError:
                open_ends.discard(end)
                end.close()
    return list(reports.values())


def run_scenario(
    connection: Connection, kind: str, path: str, now: float, name: str, given: Any, edge: str, nth: int
) -> None:
    """Run the steps of a scenario, report each that returned, and die at the nth time of an edge."""
    clock = Clock(now)
    store = open_store(kind, path, clock=clock)
    watch_edges(store, kill_at(edge, nth))
    for step, _ in enumerate(SCENARIOS[name].steps(store, given)):
        connection.send(step)
