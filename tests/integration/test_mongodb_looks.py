"""How long what is known of a queue's timers is good for."""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.mongodb.gate import Looks


def test_a_look_is_good_for_a_short_while_and_then_for_one_more_claim() -> None:
    looks = Looks()
    assert looks.wanted(1, 100.0)
    looks.looked(1, 100.0, rules.NEVER)
    assert [looks.wanted(1, 100.0 + 0.01 * n) for n in range(4)] == [False] * 4
    assert [looks.wanted(1, 100.5) for _ in range(3)] == [False, True, True]


def test_an_old_look_is_good_for_nothing() -> None:
    looks = Looks()
    looks.looked(1, 100.0, rules.NEVER)
    assert looks.wanted(1, 110.0)
    assert looks.wanted(1, 99.0), "the clock was set back"


def test_a_timer_that_has_passed_is_looked_at_however_fresh_the_look() -> None:
    looks = Looks()
    looks.looked(1, 100.0, 100.02)
    assert not looks.wanted(1, 100.01)
    assert looks.wanted(1, 100.02)
    looks.looked(1, 100.0, rules.NEVER)
    looks.timer(1, 100.2)
    assert looks.wanted(1, 100.3)


def test_a_look_that_took_long_is_good_for_longer_but_not_for_long() -> None:
    looks = Looks()
    looks.looked(1, 100.0, rules.NEVER, took=0.005)
    assert [looks.wanted(1, 100.19) for _ in range(3)] == [False] * 3
    assert [looks.wanted(1, 100.21) for _ in range(3)] == [False, True, True]
    looks.looked(1, 100.0, rules.NEVER, took=5.0)
    assert [looks.wanted(1, 100.6) for _ in range(3)] == [False, True, True]
    looks.timer(1, 100.1)
    assert looks.wanted(1, 100.2), "what this process adds is known at once"
