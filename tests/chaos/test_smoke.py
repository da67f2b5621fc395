"""A short round of the campaign on each store: clients are killed while things break, and no promise is broken."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.plan import Plan
from tests.chaos.round import Round
from tests.chaos.scene import Scene
from tests.stores import SHARED

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

#: What breaks, and for how many seconds a round lasts.
ROUNDS = {
    "sqlite": ("full disk", 3.0),
    "lmdb": ("full disk", 3.0),
    "postgres": ("server kill", 5.0),
    "redis": ("server kill", 4.0),
    "mongodb": ("server kill", 7.0),
}
SEED = "4"  # of a round in which it breaks twice
AREAS = ("plain", "keyed", "deduped", "steps", "bounded", "records", "orders", "jobs")


MOST_ROUNDS = 5  # on a busy machine it takes more than one until enough has happened


@pytest.mark.parametrize("kind", SHARED)
def test_no_promise_is_broken_while_clients_are_killed_and_things_break(kind: str) -> None:
    fault, seconds = ROUNDS[kind]
    assert len(Plan(kind, SEED, 0, seconds, frozenset({fault}), areas=AREAS).onsets) == 2
    answers = Counter[str]()
    with Scene(kind) as scene:

        def enough() -> bool:
            counts = scene.counts
            done = counts["journal entries replayed"] > 20 and counts["kills"] > 3 and answers["ok"] > 20
            return done and counts[fault] > 0

        for number in range(MOST_ROUNDS):
            outcome = Round(scene, Plan(kind, SEED, number, seconds, frozenset({fault}), areas=AREAS)).run()
            for violation in outcome.violations:
                print(violation)
            assert outcome.violations == []
            answers += outcome.answers
            if enough():
                break
        assert enough(), (scene.counts, answers)
