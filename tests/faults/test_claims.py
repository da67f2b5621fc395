"""Eight processes claim two thousand jobs; each job goes to one of them, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores.port import Changes, LeaseRequest, Settle
from tests.processes import context
from tests.stores import SHARED, Place, new_place

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

PROCESSES, JOBS = 8, 2_000
PATIENCE = 60.0


def claim(place: Place, limit: int, go: Any, answers: Any) -> None:
    """Claim until nothing is left, acking what was claimed before with each claim."""
    with place.open() as store:
        claimed: list[tuple[str, int]] = []
        settle: list[Settle] = []
        go.wait(PATIENCE)
        while True:
            done = store.commit(Changes(settle=settle, lease=LeaseRequest("jobs", limit, 600.0, f"worker-{limit}")))
            assert all(done.settled), "an ack of a message that this process holds was refused"
            claimed += [(message.id, message.attempts) for message in done.leased]
            settle = [Settle("jobs", message.id, "ack", message.attempts) for message in done.leased]
            if not settle:
                break
        answers.put(claimed)


@pytest.mark.parametrize("kind", SHARED)
def test_eight_processes_claim_two_thousand_jobs_once_each(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        ids, _ = store.put_batch("jobs", [str(n) for n in range(JOBS)], None)
        go, answers = context.Barrier(PROCESSES), context.Queue()
        limits = [1, 1, 2, 3, 5, 8, 20, 50]
        processes = [context.Process(target=claim, args=(place, n, go, answers), daemon=True) for n in limits]
        for process in processes:
            process.start()
        parts = [answers.get(timeout=PATIENCE) for _ in processes]
        for process in processes:
            process.join(PATIENCE)
        assert [process.exitcode for process in processes] == [0] * PROCESSES
        claimed = Counter(one for part in parts for one in part)
        assert claimed == Counter((message_id, 1) for message_id in ids)
        assert store.stats("jobs").total == 0
        assert store.check().problems == ()
