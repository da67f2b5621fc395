"""Several processes on one store, each killed at a random edge, round after round; the history must agree."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.crash.children import Child, reports_of
from tests.crash.clients import QUEUES, consume, name_of, produce
from tests.crash.history import Event, Verdict, judge
from tests.crash.stores import OPENERS, open_store

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

ROUNDS = 6
AN_HOUR = 3600.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", OPENERS)
def test_no_round_of_random_kills_loses_revives_doubles_or_tears_a_message(
    kind: str, seed: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "store")
    events: list[Event] = []
    for round_ in range(ROUNDS):
        ahead = round_ * AN_HOUR  # by then the leases of those who were killed have run out
        children = [
            Child(work, kind, path, ahead, f"{seed}.{round_}.{work.__name__}{n}")
            for work in (produce, consume)
            for n in range(3)
        ]
        for reports in reports_of(children):
            events += reports
        assert [child.exit_code for child in children] == [-signal.SIGKILL] * len(children)
        with open_store(kind, path, clock=lambda ahead=ahead: time.time() + ahead) as store:
            assert store.check().problems == ()
            held = [name_of(message) for queue in (*QUEUES, "done") for message in store.scan(queue)]
        assert judge(events, held) == Verdict(), f"round {round_}"
    kinds = {event.kind for event in events}
    assert kinds == {"putting", "put", "leased", "acking", "acked"}
