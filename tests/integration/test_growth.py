"""What went through a store leaves nothing behind for ever: every table is as small as it was a generation before."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from localqueue.contracts.harness import FakeClock
from tests.growth import A_TURN, GENERATIONS, generations
from tests.stores import OPENERS, SERVERS, new_place

_TURNS = {"mongodb": 1}  # of each generation, which there wait for the disk; elsewhere 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.server] if kind in SERVERS else []) for kind in OPENERS]
)
def test_no_table_grows_with_what_went_through(kind: str, tmp_path: Path) -> None:
    place, clock = new_place(kind, tmp_path), FakeClock(time.time())
    if kind == "mongodb":  # ids are of days to come here, and a database has one newest key for many ordering keys
        place = place._replace(location=place.location.replace("/?", "/growth?"))
    with place.open(clock=clock) as store:
        first, *later = generations(store, clock, place, _TURNS.get(kind, 2) * A_TURN * GENERATIONS)
        assert first.total() > 200, "what is remembered for a while was not found"
        for generation in later:
            grown = {name: (first[name], count) for name, count in generation.items() if count > 1.3 * first[name] + 3}
            assert grown == {}
        assert store.check().ok
