"""A steady load without faults, and how memory and disk grow under it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from random import Random
from statistics import linear_regression
from typing import Any, NamedTuple

from localqueue.stores.port import Changes, RecordWrite
from tests.chaos.history import Pages
from tests.chaos.producer import RECORDS
from tests.chaos.report import Tally
from tests.chaos.scene import Scene, resident
from tests.chaos.staff import Staff
from tests.chaos.verdicts.violation import Violation
from tests.chaos.workload import AREAS, Duties
from tests.stores import Place

CREW = 3
_EVERY = 5.0
_WARM = 0.25  # of the samples are not looked at: caches fill, tables find their size
_ENDED = ("dead", "expired", "cancelled")


class _Blank(Pages):
    def write(self, line: bytes) -> None:
        """What happened is not what this is about."""


def steady(_: Callable[[], None], *, place: list[str], who: str, seconds: float, seed: str, areas: list[str]) -> None:
    """Work at an even pace, and tidy up behind: what is left of a message is not meant to stay."""
    duties, end = Duties(areas), time.monotonic() + seconds
    with Place(*place).open(timeout=30.0) as store:
        one = Staff(store, who, _Blank(), Random(f"{seed}/{who}"), namespace="a", claimed=duties.claimed)
        for n in itertools.count(1):
            duties.act(one)
            time.sleep(0.002)
            if n % 500 == 0:
                _tidy(store)
            if time.monotonic() > end:
                return


def _tidy(store: Any) -> None:
    for queue in store.queues():
        for state in _ENDED:
            store.prune(queue, state=state, older_than=1.0)
    old = store.records(RECORDS, limit=1000)
    store.commit(Changes(records=[RecordWrite(RECORDS, record.key, None) for record in old]))


class Sample(NamedTuple):
    at: float
    clients: float
    server: float
    disk: float


def run(scene: Scene, tally: Tally, seconds: float) -> list[str]:
    """The slopes of a soak, as notes."""
    place = scene.place(f"soak-{tally.seed}")
    areas = [area for area in AREAS if area != "many"]
    children = [
        scene.nursery.hire("steady", place=place, who=f"s{n}", seconds=seconds, seed=tally.seed, areas=areas)
        for n in range(CREW)
    ]
    samples: list[Sample] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        scene.nursery.look(min(_EVERY, seconds - passed))
        alive = [child.pid for child in children if child.pid is not None and child.status is None]
        if len(alive) == CREW:
            memory = sum(map(resident, alive)) / CREW
            samples.append(Sample(time.monotonic() - began, memory, scene.memory(), scene.weight()))
    deadline = time.monotonic() + 60.0
    while any(child.status is None for child in children) and time.monotonic() < deadline:
        scene.nursery.look(1.0)
    for child in children:
        if child.status != 0:
            tally.violations.append(("soak", Violation("stuck", f"a steady client ended with {child.status}")))
    tally.seconds += seconds
    if not samples:
        return ["the soak was too short for a sample"]
    tally.disk = int(samples[0].disk), int(samples[-1].disk)
    tally.memory = int(samples[0].server), int(samples[-1].server)
    kept = samples[int(len(samples) * _WARM) :]
    return [_trend(name, kept, n) for name, n in (("memory of a client", 1), ("memory of the server", 2), ("disk", 3))]


def _trend(name: str, samples: list[Sample], n: int) -> str:
    """How a value began and ended, and by how much it grows, by least squares."""
    values = [sample[n] / 1e6 for sample in samples]
    slope = 0.0
    if len(samples) > 1:
        slope = linear_regression([sample.at / 60 for sample in samples], values).slope
    return f"{name}: {values[0]:.1f} MB, in the end {values[-1]:.1f} MB; {slope * 1000:+.0f} kB a minute"
