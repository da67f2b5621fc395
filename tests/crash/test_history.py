"""The history checker finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.crash.history import Event, Verdict, judge

PUT_A = [Event("putting", ("a",)), Event("put", ("a",))]
LEASED_A = [Event("leased", ("a",), (1,))]
ACKED_A = [Event("acking", ("a",)), Event("acked", ("a",))]


@pytest.mark.parametrize(
    ("events", "held"),
    [
        (PUT_A, ["a"]),
        (PUT_A + LEASED_A, ["a"]),
        (PUT_A + LEASED_A + ACKED_A, []),
        (PUT_A[:1], []),
        (PUT_A[:1], ["a"]),
        (PUT_A + LEASED_A + ACKED_A[:1], []),
        (PUT_A + LEASED_A + ACKED_A[:1], ["a"]),
        (PUT_A + LEASED_A + [Event("leased", ("a",), (2,))], ["a"]),
        ([Event("putting", ("a", "b"))], ["a", "b"]),
        ([Event("putting", ("a", "b")), *LEASED_A], ["b"]),
    ],
)
def test_a_store_that_kept_its_promises_is_cleared(events: list[Event], held: list[str]) -> None:
    assert judge(events, held) == Verdict()


@pytest.mark.parametrize(
    ("events", "held", "verdict"),
    [
        (PUT_A, [], Verdict(lost=("a",))),
        (PUT_A + LEASED_A, [], Verdict(lost=("a",))),
        (PUT_A + LEASED_A + ACKED_A, ["a"], Verdict(resurrected=("a",))),
        (PUT_A, ["a", "a"], Verdict(doubled=("a",))),
        (PUT_A + LEASED_A + ACKED_A + ACKED_A, [], Verdict(doubled=("a",))),
        (PUT_A + LEASED_A + LEASED_A, ["a"], Verdict(doubled=("a",))),
        ([Event("putting", ("a", "b", "c"))], ["a", "c"], Verdict(torn=(("a", "b", "c"),))),
        (PUT_A, ["a", "z"], Verdict(unheard_of=("z",))),
    ],
)
def test_a_broken_promise_is_found_and_named(events: list[Event], held: list[str], verdict: Verdict) -> None:
    assert judge(events, held) == verdict
