"""Who is woken by a change, and looks at the store because of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.stores.rules import NEVER
from localqueue.stores.wake import StoreWaiter, Wake


class Watch:
    """A thread that waits for a queue, and how often it has looked."""

    def __init__(self, wake: Wake, queue: str) -> None:
        self.there = False
        self.looks = 0
        self.looked = threading.Semaphore(0)
        self.waiter = StoreWaiter(wake, (queue,), self._look)
        self.thread = threading.Thread(target=self.waiter.wait, daemon=True)
        self.thread.start()
        assert self.looked.acquire(timeout=PATIENCE)

    def _look(self) -> tuple[bool, float]:
        self.looks += 1
        self.looked.release()
        return self.there, NEVER

    def has_looked_again(self) -> bool:
        return self.looked.acquire(timeout=PATIENCE)


@pytest.fixture
def wake() -> Wake:
    return Wake(None, catch_up=lambda: 2 * PATIENCE)


@pytest.fixture
def watches(wake: Wake) -> Iterator[tuple[Watch, Watch]]:
    both = Watch(wake, "ours"), Watch(wake, "theirs")
    yield both
    for one in both:
        one.waiter.interrupt()
        one.thread.join(PATIENCE)
        assert not one.thread.is_alive()


def test_what_happens_in_one_queue_makes_nobody_look_into_another(wake: Wake, watches: tuple[Watch, Watch]) -> None:
    ours, theirs = watches
    for change in (wake.touched, wake.told):
        change(["ours"])
        assert ours.has_looked_again()
    assert (ours.looks, theirs.looks) == (3, 1)


def test_everybody_looks_when_it_is_not_known_what_happened(wake: Wake, watches: tuple[Watch, Watch]) -> None:
    wake.stir()
    assert all(one.has_looked_again() for one in watches)


def test_ending_one_wait_leaves_the_others_at_rest(watches: tuple[Watch, Watch]) -> None:
    ours, theirs = watches
    ours.waiter.interrupt()
    ours.thread.join(PATIENCE)
    assert not ours.thread.is_alive()
    assert theirs.looks == 1


def test_a_change_between_the_look_and_the_wait_is_not_missed(wake: Wake) -> None:
    looks = 0

    def look() -> tuple[bool, float]:
        nonlocal looks
        looks += 1
        if looks == 1:
            wake.touched(["ours"])
        return looks > 1, NEVER

    assert StoreWaiter(wake, ("ours",), look).wait(PATIENCE)
    assert looks == 2
