"""What clients do, and a run of several of them in one process, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from localqueue.contracts.harness import FakeClock
from tests.chaos.consumer import Consumer
from tests.chaos.drain import Stuck, drain, final_of
from tests.chaos.history import Pages, read
from tests.chaos.journal import replay_journal
from tests.chaos.producer import (
    BOUNDED,
    BRIEF,
    DEDUPED,
    FRAGILE,
    FULL,
    KEYED,
    LATEST,
    MANY,
    NEWEST,
    PLAIN,
    SPILL,
    STEPS,
    SUBSCRIBERS,
)
from tests.chaos.staff import Staff
from tests.chaos.verdicts import Rules, Violation, judge

NAMESPACES = ("a", "b")

Habits = dict[Callable[[Any], Any], float]


class Area(NamedTuple):
    """Something a store promises: what clients do about it and how often in comparison, where they claim, and how many
    claims and settles there are for each of the other things: as many as keep the queues short, or full."""

    habits: Habits
    queues: tuple[str, ...]
    settles: float = 4.0


AREAS = {
    "plain": Area({Consumer.put_one: 6, Consumer.put_batch: 2}, (PLAIN,)),
    "many": Area({Consumer.put_into_one_of_many: 4}, MANY),
    "consumed": Area({Consumer.put_to_be_consumed: 3, Consumer.consume: 3}, ()),
    "keyed": Area({Consumer.put_keyed: 8}, (KEYED,)),
    "deduped": Area({Consumer.put_deduped: 8}, (DEDUPED,)),
    "steps": Area({Consumer.put_steps: 5}, (STEPS,)),
    "brief": Area({Consumer.put_brief: 6}, (BRIEF,)),
    "fragile": Area({Consumer.put_fragile: 4}, (FRAGILE,), 8.0),
    "bounded": Area({Consumer.put_bounded: 8}, (BOUNDED, LATEST, NEWEST, FULL, SPILL), 0.6),
    "news": Area({Consumer.publish: 3}, SUBSCRIBERS),
    "records": Area({Consumer.put_with_record: 3, Consumer.ack_and_put: 4}, (PLAIN, STEPS)),
    "orders": Area({Consumer.order: 5, Consumer.work: 5}, ()),
    "jobs": Area({Staff.order_job: 6, Staff.put_poison: 1, Staff.work_jobs: 1}, ()),
}

#: Those that need no threads, and so no time but what is told.
STEADY = tuple(name for name in AREAS if name != "jobs")

#: What all clients do.
SETTLES: Habits = {
    Consumer.claim: 24,
    Consumer.ack_one: 12,
    Consumer.ack_some: 5,
    Consumer.give_back: 7,
    Consumer.renew: 5,
    Consumer.settle_again: 3,
    Consumer.requeue: 1,
}


class Duties:
    """What the clients of a run do, and where they claim."""

    def __init__(self, areas: Iterable[str]) -> None:
        chosen = [AREAS[name] for name in areas]
        self.claimed = tuple(area.queues for area in chosen if area.queues)
        habits: Habits = {habit: often for area in chosen for habit, often in area.habits.items()}
        if self.claimed:
            settles = sum(area.settles * sum(area.habits.values()) for area in chosen) / sum(SETTLES.values())
            habits |= {habit: often * settles for habit, often in SETTLES.items()}
        self._habits, self._weights = list(habits), list(habits.values())

    def act(self, client: Staff) -> None:
        """Have a client do one thing."""
        (habit,) = client.chance.choices(self._habits, self._weights)
        habit(client)


class Ticks:
    """The time of notes on a clock that is moved by hand: no two readings are the same."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def __call__(self) -> float:
        self._clock.advance(1e-6)
        return self._clock()


def run_in_process(
    opened: Callable[..., Any], *, seed: str, steps: int, areas: Iterable[str] = STEADY, rules: Rules | None = None
) -> list[Violation]:
    """Have six clients take turns on a store, then drain it and judge. The same seed is the same run."""
    clock, chance, duties = FakeClock(), Random(seed), Duties(areas)
    now = Ticks(clock)
    stores = {namespace: opened(namespace=namespace, clock=clock) for namespace in NAMESPACES}
    journalled = stores[NAMESPACES[-1]]
    journalled.enable_journal()
    notebooks: dict[str, Pages] = {}

    def hire(who: str, namespace: str) -> Staff:
        notebooks[who] = Pages()
        own = Random(f"{seed}/{who}")
        return Staff(stores[namespace], who, notebooks[who], own, namespace=namespace, now=now, claimed=duties.claimed)

    crew = [hire(f"c{n}", NAMESPACES[n % 3 == 2]) for n in range(6)]
    for _ in range(steps):
        duties.act(chance.choice(crew))
        clock.advance(chance.choice((0.0, 0.001, 0.01, 0.05)))
        if chance.random() < 0.01:
            clock.advance(1.0)
    stuck = [_drain(hire(f"drain-{namespace}", namespace), clock) for namespace in NAMESPACES]
    operations = [one for who, pages in notebooks.items() for one in read(who, pages.lines)]
    final = final_of(stores)
    final.journal = replay_journal(journalled, operations)
    found = judge(operations, final, rules)
    for store in stores.values():
        store.close()
    return [*found, *(one for one in stuck if one is not None)]


def _drain(client: Consumer, clock: FakeClock) -> Violation | None:
    looks = iter(range(80))

    def patient(progress: bool) -> bool:
        if not progress:
            clock.advance(0.5)
        return next(looks, None) is not None

    try:
        drain(client, patient)
    except Stuck as error:
        return Violation("stuck", str(error))
    return None
