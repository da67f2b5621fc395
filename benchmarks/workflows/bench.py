"""The run's settings, a place for each system, and turns: a worker and a starter in processes of their own.

Only the processes of the system whose turn it is run, so that one that polls takes nothing from the others; servers
stay up. A system keeps its place for the whole benchmark, as it would in life.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from on_servers.places import PLACES, Places
from workflows.peer_servers import Restate, Temporal
from workflows.systems import System, restate_program, temporal_program

PROCESS = Path(__file__).with_name("process.py")
_ENDS_WITHIN = 60.0

#: the figures of each turn, by the name of the system
Measured = dict[str, list[list[float]]]


class Child:
    def __init__(self, system: System, role: str, address: str, options: dict[str, Any]) -> None:
        self.name = system.name
        self.process = subprocess.Popen(
            [system.python, "-P", str(PROCESS), str(system.adapter), role, json.dumps({"address": address, **options})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} stopped with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def stop(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            print(f"{self.name}: did not end within {_ENDS_WITHIN:.0f} s and was killed")
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Bench:
    def __init__(self, systems: list[System], venvs: Path, *, directory: str | None, quick: bool) -> None:
        self.systems = systems
        self.quick = quick
        self.root = Path(tempfile.mkdtemp(prefix="localqueue-bench-", dir=directory))
        self._venvs = venvs
        self._numbers = itertools.count(1)
        self._servers: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def close(self) -> None:
        for server in self._servers.values():
            server.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def pick(self, *names: str) -> list[System]:
        return [system for system in self.systems if system.name in names]

    def new_address(self, place: str) -> str:
        """A place where nothing is yet, except on the servers of peers, which have one for all."""
        number = next(self._numbers)
        if place == "sqlite":
            return f"sqlite:///{self.root}/{number}.sqlite3"
        server = self._server(place)
        return server.make(number) if isinstance(server, Places) else str(server.url)

    def _server(self, place: str) -> Any:
        if place not in self._servers:
            server = self._make_server(place)
            if not isinstance(server, Places):
                server.start()
            self._servers[place] = server
        return self._servers[place]

    def _make_server(self, place: str) -> Any:
        match place:
            case "temporal":
                return Temporal(temporal_program(self._venvs))
            case "temporal, tuned":
                return Temporal(temporal_program(self._venvs), tuned=True)
            case "restate":
                return Restate(restate_program(self._venvs))
            case "restate, no sync":
                return Restate(restate_program(self._venvs), sync=False)
        return PLACES[place]()

    @contextmanager
    def turn(self, system: System, *, workers: int = 1, **options: Any) -> Iterator[Child]:
        """The starter of a system whose workers are up."""
        if system.name not in self._addresses:
            self._addresses[system.name] = self.new_address(system.place)
        address, options = self._addresses[system.name], system.options | options
        with ExitStack() as running:

            def start(role: str) -> Child:
                child = Child(system, role, address, options)
                running.callback(child.stop)
                child.answer()
                return child

            for _ in range(workers if system.has_worker else 0):
                start("worker")
            yield start("starter")

    def rounds(
        self,
        count: int,
        measure: Callable[[System], dict[str, list[float]]],
        systems: list[System] | None = None,
    ) -> dict[str, Measured]:
        """Give each system its turn, round after round: taken[what][system] is a list of its turns.

        The first round warms up and is thrown away. A system that fails is left out from then on, and said so.
        """
        taken: dict[str, Measured] = {}
        for number in range(count + 1):
            for system in self.systems if systems is None else systems:
                if system.name in self.failed:
                    continue
                try:
                    figures = measure(system)
                except RuntimeError as error:
                    self.failed[system.name] = str(error)
                    print(f"{system.name}: left out, {error}", flush=True)
                    continue
                for what, laps in figures.items() if number else ():
                    taken.setdefault(what, {}).setdefault(system.name, []).append(laps)
        return taken
