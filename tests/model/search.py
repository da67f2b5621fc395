"""Runs Spin: searches the model for a state that breaks a property, and a faulty model for the one that must be there.

Nothing but the standard library is needed, and the programs `spin` and `gcc`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PROGRAMS = ("spin", "gcc")
_MEGABYTES = 1500  # a search that needs more ends, and says so
_STATES = (
    *("ready", "delayed", "inflight", "waiting", "blocked"),
    *("dead", "expired", "cancelled", "acked", "dropped", "refused"),
)


class Scene(NamedTuple):
    """Messages and people that the model is searched with; `progress` asks whether everything ends, instead of whether
    anything goes wrong. One that is `large` has so many states that a better compiled search pays."""

    name: str
    acts: int = 1
    workers: int = 2
    progress: bool = False
    large: bool = False

    @property
    def options(self) -> list[str]:
        progress = ["-DPROGRESS"] if self.progress else []
        return [f"-DSCENE_{self.name.upper()}", f"-DACTS={self.acts}", f"-DWORKERS={self.workers}", *progress]

    def __str__(self) -> str:
        return f"{self.name}, progress" if self.progress else self.name


class Fault(NamedTuple):
    """A rule that is broken on purpose, the scene that shows it, and the property that must be found broken."""

    name: str
    scene: Scene
    breaks: str


class Verdict(NamedTuple):
    """What a search found: the property that is broken, and the steps that lead there."""

    states: int
    broken: str | None = None
    steps: int = 0
    story: str = ""

    def __str__(self) -> str:
        return f"{self.story}\nbroken: {self.broken}"


class NotExhaustive(Exception):
    """A search ended before it had seen everything."""


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def search(scene: Scene, fault: str = "none") -> Verdict:
    """Look at every state that a scene can come to, until one breaks a property; with a fault, the nearest first."""
    with tempfile.TemporaryDirectory(prefix="localqueue-model-") as folder:
        for source in HERE.glob("*.pml"):
            shutil.copy(source, folder)
        model = [*scene.options, f"-DFAULT={fault}", "queue.pml"]
        _run(folder, "spin", "-a", *model)
        _run(folder, "gcc", "-w", *_how_to_search(scene, fault), f"-DMEMLIM={_MEGABYTES}", "-o", "pan", "pan.c")
        said = _run(folder, "./pan", "-n", "-m100000", "-w20", *(["-a", "-f"] if scene.progress else []))
        states = int(float(_find(r"([\d.e+]+) states, stored", said)))
        if int(_find(r"errors: (\d+)", said)) == 0:
            check_exhaustive(said)
            return Verdict(states)
        return _told(states, _run(folder, "spin", "-t", *model))


def _how_to_search(scene: Scene, fault: str) -> list[str]:
    optimised = "-O1" if scene.large else "-O0"
    if scene.progress:
        return [optimised, "-DNFAIR=3"]
    return [optimised, "-DSAFETY"] if fault == "none" else [optimised, "-DSAFETY", "-DBFS"]


def check_exhaustive(said: str) -> None:
    """Raise unless every state was kept whole and none was passed by."""
    signs = ("Search not completed", "max search depth too small", "Bit statespace", "Hash-Compact", "memory limit")
    if "Full statespace search" not in said or any(sign.lower() in said.lower() for sign in signs):
        raise NotExhaustive(said)


def _told(states: int, trail: str) -> Verdict:
    """What spin says when it follows the trail that the search left."""
    lines = (line.strip() for line in trail.splitlines())
    story = [line for line in lines if line.startswith(("worker ", "message ", "the ", "a timer "))]
    named = [re.sub(r"state (\d+)$", lambda found: _STATES[int(found[1])], line) for line in story]
    broken = re.search(r"broken: (\w+)", trail)
    steps = int(_find(r"trail ends after (\d+) steps", trail))
    return Verdict(states, "progress" if broken is None else broken[1], steps, "\n".join(named))


def _find(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    if found is None:
        raise RuntimeError(f"nothing like {pattern!r} in:\n{said}")
    return found[1]


def _run(folder: str, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0:  # a counterexample is none of these programs' errors: they end with 0 then
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return said
