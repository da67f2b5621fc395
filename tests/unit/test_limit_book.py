"""The decisions about a limit, against a reference that remembers everything, and in a world that plays a queue."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from localqueue.limits import Limits
from localqueue.limits.book import MOST_PARKED, MOST_RESERVED, Book, Entrant

NOW = 1_700_000_000.0
CATCH_UP = 30.0

limits_of_any_kind = st.builds(
    lambda rate, most, seconds, concurrency: Limits(
        rate=(most, seconds) if rate else None, concurrency=None if rate and concurrency == 0 else max(concurrency, 1)
    ),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([0.1, 1.0, 7.5]),
    st.integers(0, 4),
)


class Step(NamedTuple):
    seconds: float
    who: int
    dies: bool


steps = st.lists(
    st.builds(Step, st.sampled_from([0.0, 0.01, 0.095, 0.1, 0.5, 0.95, 1.0, 5.0]), st.integers(0, 9), st.booleans()),
    max_size=80,
)


def entrant(number: int, turns: int = 0, place: float = NOW) -> Entrant:
    return Entrant("jobs", f"m{number:06}", 1, place=place, turns=turns)


def check_windows(starts: list[float], limits: Limits) -> None:
    rate = limits.starts
    if rate is not None:
        assert all(first + rate.seconds <= last for first, last in zip(starts, starts[rate.most :], strict=False))


@given(limits_of_any_kind, steps)
def test_never_more_run_or_start_than_may_and_none_is_refused_without_a_reason(
    limits: Limits, steps: list[Step]
) -> None:
    book, now, running, starts = Book(), NOW, set[str](), list[float]()
    for seconds, who, dies in steps:
        now += seconds
        one = entrant(who)
        book = Book.decode(book.encode())
        book.turn_to(now, limits)
        if one.id in running:
            running.discard(one.id)
            if dies:
                book.holders.pop(one.id, None)  # what looking for it does
            else:
                assert book.leave(now, one.id, one.token) is (limits.concurrency is not None)
            book.promote(now, limits)
        elif book.has_place_for(now, limits, one):
            book.admit(now, limits, one)
            running.add(one.id)
            starts.append(now)
        else:
            full = limits.concurrency is not None and len(running) >= limits.concurrency
            recent = 0 if limits.starts is None else sum(at + limits.starts.seconds > now for at in starts)
            used_up = limits.starts is not None and recent >= limits.starts.most
            assert full or used_up or book.parked or book.reserved
            assert 0 < book.refuse(now, limits, one, CATCH_UP) < 3601
        assert limits.concurrency is None or len(running) <= limits.concurrency
        check_windows(starts, limits)
        assert len(book.parked) <= MOST_PARKED and len(book.reserved) <= MOST_RESERVED


class World:
    """A queue with some workers, played by heart: it knows of a message what a store would."""

    def __init__(self, limits: Limits, durations: list[float], workers: int) -> None:
        self.limits, self.durations, self.workers = limits, durations, workers
        self.book, self.now = Book(), NOW
        self.line = [(NOW, n) for n in range(len(durations))]  # by place
        self.delayed: dict[int, float] = {}
        self.running: dict[int, float] = {}
        self.turns = dict.fromkeys(range(len(durations)), 0)
        self.starts: list[float] = []
        self.done: list[int] = []

    def play(self) -> int:
        """Until all are done; how often a message was leased."""
        leases = 0
        while len(self.done) < len(self.durations):
            self._fall_due()
            while self.line and len(self.running) < self.workers:
                leases += 1
                self._lease()
            if not self.line or len(self.running) >= self.workers:
                self.now = max(self.now, min([*self.running.values(), *self.delayed.values()]))
                self._finish()
        return leases

    def _fall_due(self) -> None:
        for number in [number for number, at in self.delayed.items() if at <= self.now]:
            heapq.heappush(self.line, (self.delayed.pop(number), number))

    def _lease(self) -> None:
        place, number = heapq.heappop(self.line)
        one = entrant(number, self.turns[number], place)
        self.book.turn_to(self.now, self.limits)
        if self.book.has_place_for(self.now, self.limits, one):
            self.book.admit(self.now, self.limits, one)
            self.running[number] = self.now + self.durations[number]
            self.starts.append(self.now)
        else:
            self.turns[number] += 1
            self.delayed[number] = self.now + self.book.refuse(self.now, self.limits, one, CATCH_UP)
        self._promote()

    def _finish(self) -> None:
        for number in [number for number, end in self.running.items() if end <= self.now]:
            del self.running[number]
            self.done.append(number)
            self.book.turn_to(self.now, self.limits)
            self.book.leave(self.now, entrant(number).id, 1)
        self._promote()

    def _promote(self) -> None:
        for _, name, delay in self.book.promote(self.now, self.limits):
            number = int(name[1:])
            if number in self.delayed:
                self.delayed[number] = self.now + delay


@given(
    limits_of_any_kind, st.lists(st.sampled_from([0.0, 0.001, 0.2, 3.0]), min_size=1, max_size=60), st.integers(1, 6)
)
def test_every_message_has_its_turn_and_none_is_leased_over_and_over(
    limits: Limits, durations: list[float], workers: int
) -> None:
    world = World(limits, durations, workers)
    leases = world.play()
    assert sorted(world.done) == list(range(len(durations)))
    check_windows(world.starts, limits)
    assert leases <= 5 * len(durations)
    world.book.turn_to(world.now + 100, limits)
    assert world.book.is_idle(world.now + 100)


def test_a_crowd_that_is_not_noted_comes_back_at_the_pace_at_which_messages_run() -> None:
    limits = Limits(concurrency=2)
    world = World(limits, [0.5] * 1000, workers=4)
    leases = world.play()
    assert len(world.done) == 1000
    assert leases < 5000
    assert world.now - NOW < 2 * 1000 * 0.5 / 2


def test_a_crowd_under_a_rate_loses_little_of_it() -> None:
    world = World(Limits(rate="10/s"), [0.001] * 1000, workers=4)
    leases = world.play()
    check_windows(world.starts, world.limits)
    assert leases < 5000
    assert world.now - NOW < 2 * 100


def test_of_a_high_rate_a_bounded_number_of_times_is_kept_and_it_is_not_exceeded() -> None:
    limits = Limits(rate="5000/h")
    book, now, starts = Book(), NOW, list[float]()
    for number in range(12_000):
        now += 0.3
        book.turn_to(now, limits)
        if book.has_place_for(now, limits, entrant(number)):
            book.admit(now, limits, entrant(number))
            starts.append(now)
        assert len(book.starts) <= 130
    check_windows(starts, limits)
    assert len(starts) > 4900
    assert len(book.encode()) < 5000


def test_when_the_clock_is_set_back_a_rate_opens_after_one_window() -> None:
    limits = Limits(rate="1/m")
    book = Book()
    book.turn_to(NOW, limits)
    book.admit(NOW, limits, entrant(1))
    back = NOW - 86400
    book.turn_to(back, limits)
    assert book.opens_at(back, limits) == back + 60
    book.turn_to(back + 60, limits)
    assert book.has_place_for(back + 60, limits, entrant(2))


def test_a_message_that_waits_goes_before_one_that_comes_later_but_not_before_one_of_higher_priority() -> None:
    limits = Limits(concurrency=1)
    book = Book()
    book.admit(NOW, limits, entrant(1))
    book.refuse(NOW, limits, entrant(2), CATCH_UP)
    book.refuse(NOW, limits, entrant(3), CATCH_UP)
    book.leave(NOW + 1, entrant(1).id, 1)
    assert not book.has_place_for(NOW + 1, limits, entrant(4))
    assert book.has_place_for(NOW + 1, limits, entrant(4)._replace(priority=1))
    assert [one.id for one in book.promote(NOW + 1, limits)] == [entrant(2).id]
    assert not book.has_place_for(NOW + 1, limits, entrant(4))


def test_of_two_for_whom_places_are_kept_the_first_goes_and_does_not_wait_for_the_other() -> None:
    limits = Limits(rate="2/s", concurrency=2)
    book = Book()
    for number in (1, 2):
        book.admit(NOW, limits, entrant(number))
    book.leave(NOW, entrant(1).id, 1)
    for number in (3, 4):
        assert book.refuse(NOW, limits, entrant(number), CATCH_UP) == 1.0
    book.turn_to(NOW + 1, limits)
    assert not book.has_place_for(NOW + 1, limits, entrant(4))
    assert book.has_place_for(NOW + 1, limits, entrant(3))


def test_a_holder_leaves_by_the_token_of_its_own_lease_only() -> None:
    limits = Limits(concurrency=1)
    book = Book()
    book.admit(NOW, limits, entrant(1)._replace(token=2))
    assert not book.leave(NOW, entrant(1).id, 1)
    assert book.is_full(limits)
    assert book.leave(NOW, entrant(1).id, 2)
