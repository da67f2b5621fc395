"""What is going to happen in a round, decided by its seed before it begins: who comes, how each ends, what breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Literal, NamedTuple

from tests.chaos.client import ASKED, TOLD
from tests.chaos.jobs import EDGES
from tests.chaos.verdicts import Rules
from tests.chaos.workload import AREAS, NAMESPACES
from tests.stores import SERVERS

Fate = Literal["kill", "point", "stop", "leave"]

#: What can break, on stores in files and on servers.
FAULTS = {
    "local": ("full disk", "read-only", "clock jump"),
    "server": ("server kill", "cuts", "silence", "drop"),
}

#: How far apart two clients may be in what they take for the store's time. A client of MongoDB measures the server's
#: clock, and an answer that comes late misleads it.
_TOLERANCE = {"mongodb": 0.5}

_HOUR = 3600.0


class Recruit(NamedTuple):
    """A client that comes: what it does, how it ends, and after how many seconds, or at which point for the nth time.

    One that is stopped goes on after the `pause`, and is killed a while later. The seconds are counted from when it has
    opened the store, or `early` from when it is born."""

    who: str
    letter: str
    fate: Fate
    after: float
    early: bool
    pause: float
    point: str | None
    nth: int
    acts: int
    ahead: float
    proxied: bool


class Onset(NamedTuple):
    """Something that breaks `at` some second of the round, and for how long."""

    at: float
    fault: str
    lasts: float
    how: float


@dataclass(frozen=True)
class Plan:
    """One round on one store. `faults` are those that may happen: of `FAULTS`, and "skew": wrong clocks."""

    kind: str
    seed: str
    number: int
    seconds: float
    faults: frozenset[str]
    crew: int = 5
    areas: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return f"{self.seed}/{self.number}"

    @property
    def family(self) -> str:
        return "server" if self.kind in SERVERS else "local"

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """What the clients are about: everything in one round of three, a few things in the others."""
        chance = Random(f"{self.name}/areas")
        if self.areas or chance.random() < 0.33:
            return self.areas or tuple(AREAS)
        return tuple(sorted(chance.sample(sorted(AREAS), chance.randint(2, 4))))

    @cached_property
    def onsets(self) -> tuple[Onset, ...]:
        chance = Random(f"{self.name}/faults")
        possible = [fault for fault in FAULTS[self.family] if fault in self.faults]
        count = chance.choice((0, 1, 2, 2, 3)) if possible else 0
        found = [
            Onset(
                chance.uniform(0.1, 0.75) * self.seconds,
                chance.choice(possible),
                chance.uniform(0.2, 1.5),
                chance.choice((-4.0, -1.0, 1.0, 5.0)),
            )
            for _ in range(count)
        ]
        return tuple(sorted(found))

    def recruit(self, n: int) -> Recruit:
        chance = Random(f"{self.name}/{n}")
        (fate,) = chance.choices(("kill", "point", "stop", "leave"), (50, 35, 7, 8))
        points = (ASKED, TOLD, *EDGES[self.kind])
        ahead = chance.choice((-_HOUR, -1.0, 1.0, _HOUR)) if chance.random() < 0.3 else 0.0
        return Recruit(
            who=f"c{n}",
            letter=NAMESPACES[n % 4 == 3],
            fate=fate,  # type: ignore[arg-type]
            after=chance.uniform(0.01, 0.3),
            early=chance.random() < 0.15,
            pause=chance.uniform(0.3, 1.6),
            point=chance.choice(points) if fate == "point" else None,
            nth=chance.randint(1, 40),
            acts=chance.randint(1, 60) if fate == "leave" else 1_000_000,
            ahead=ahead if self.family == "server" and "skew" in self.faults else 0.0,
            proxied=chance.random() < 0.6,
        )

    @property
    def journalled(self) -> str:
        """The namespace that keeps a journal, with which many calls take another way: by turns the one where most
        clients are."""
        return NAMESPACES[self.number % 2]

    @property
    def jumps(self) -> list[float]:
        return [onset.how for onset in self.onsets if onset.fault == "clock jump"]

    @property
    def rules(self) -> Rules:
        """PostgreSQL and MongoDB pass by what another client has locked, so that the order of plain messages is not
        certain while clients die; nor is it where the clock is set back."""
        serial = self.kind in ("sqlite", "lmdb", "redis")
        return Rules(
            fifo=0.0 if serial and not self.jumps else None,
            tolerance=_TOLERANCE.get(self.kind, 0.005),
            jumped_ahead=sum(jump for jump in self.jumps if jump > 0),
            jumped_back=-sum(jump for jump in self.jumps if jump < 0),
        )
