"""A server that is killed while it commits, and started again: what was confirmed is there, nothing is torn.

Threads put, lease and settle on one store while its server is killed again and again at moments nobody chose. The same
store goes on each time, and in the end it agrees with everything that was confirmed to the threads.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from tests.chaos.drain import drain, final_of
from tests.chaos.history import Operation, Pages, read
from tests.chaos.staff import Staff
from tests.chaos.verdicts import Rules, judge
from tests.chaos.workload import Duties
from tests.faults.ways import own_server
from tests.stores import SERVERS, on_server

pytestmark = [pytest.mark.crash, pytest.mark.slow]

KILLS, THREADS = 3, 4
PATIENCE = 30.0
AREAS = ("plain", "keyed", "deduped", "steps", "news", "records", "orders")


class Crew:
    """Threads on one store, and what they were told."""

    def __init__(self, store: Any) -> None:
        self.done = [0] * THREADS  # calls that were confirmed, by thread
        self._duties = Duties(AREAS)
        self._pages = {f"t{n}": Pages() for n in range(THREADS)}
        self._staff = [
            Staff(store, who, pages, random.Random(who), namespace="a", claimed=self._duties.claimed)
            for who, pages in self._pages.items()
        ]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(THREADS)]

    def _work(self, n: int) -> None:
        one = self._staff[n]
        while not self._stop.is_set():
            failures = one.failures
            self._duties.act(one)
            if one.failures > failures:
                self._stop.wait(0.02)
            else:
                self.done[n] += 1

    def wait_for_progress(self) -> None:
        """Until every thread has had answers again."""
        goal = [count + 5 for count in self.done]
        deadline = time.monotonic() + PATIENCE
        while any(count < wanted for count, wanted in zip(self.done, goal, strict=True)):
            assert time.monotonic() < deadline, f"the store does not go on: {self.done} of {goal}"
            time.sleep(0.005)

    def history(self) -> list[Operation]:
        return [one for who, pages in self._pages.items() for one in read(who, pages.lines)]

    def __enter__(self) -> Crew:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a call does not return"


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_killed_while_it_commits_keeps_what_it_confirmed_and_tears_nothing(kind: str) -> None:
    server, chance = own_server(kind), random.Random(kind)
    with on_server(server).open(timeout=5.0) as store:
        with Crew(store) as crew:
            for _ in range(KILLS):
                crew.wait_for_progress()
                threading.Event().wait(chance.uniform(0.0, 0.05))  # some moment
                server.kill()
                server.start()
                crew.wait_for_progress()
        history, end = crew.history(), time.monotonic() + PATIENCE
        last = Pages()
        drain(Staff(store, "last", last, chance, namespace="a"), lambda progress: time.monotonic() < end)
        found = judge([*history, *read("last", last.lines)], final_of({"a": store}), Rules(fifo=None, tolerance=0.5))
        for violation in found:
            print(violation)
        assert found == []
