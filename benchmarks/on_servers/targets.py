"""What the figures have to be, and the lines that say whether they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import Samples, Table, verdict
from on_servers.bench import ratio
from on_servers.systems import RAW


@dataclass(frozen=True)
class Target:
    """`ours` does at least `at_least` times as many a second as `base`."""

    what: str
    base: str
    at_least: float


RAW_LOOP = "raw, one by one"
RAW_BATCH = "raw, 50 at a time"

TARGETS: dict[str, tuple[Target, ...]] = {
    "postgres": (
        Target("put", RAW, 0.8),
        Target("put", "pgmq", 1.0),
        Target("put", "pgmq, autocommit", 1.0),
        Target("put", "pgqueuer", 1.0),
        Target("put", "procrastinate", 1.0),
        Target("put", "dbos", 1.0),
        Target("get + ack", RAW, 0.8),
        Target("bulk put", RAW, 0.7),
        Target("worker", RAW_BATCH, 0.4),
        Target("worker", "pgqueuer", 2.0),
        Target("worker", "pgqueuer, 50 a batch", 2.0),
        Target("worker", "procrastinate", 20.0),
    ),
    "redis": (
        Target("put", RAW, 0.8),
        Target("get + ack", RAW, 0.8),
        Target("worker", "dramatiq", 3.0),
        Target("worker", "taskiq", 3.0),
        Target("worker", "taskiq, lists without ack", 3.0),
    ),
    "mongodb": (
        Target("put", RAW, 0.8),
        Target("get + ack", RAW, 0.8),
        Target("bulk put", RAW, 0.6),
    ),
}

#: milliseconds, the median from a put in one process to the handler in another
WAKE = {"postgres": 2.0, "redis": 1.0, "mongodb": 5.0}

#: cost above a million messages against the cost above none, and throughput under an old snapshot against pgmq
FLAT = 1.25
SNAPSHOT = 1.0


def judge(kind: str, what: str, samples: Samples, ours: str, *, without: Sequence[str] = ()) -> Table | None:
    """A line for each target of this kind about `what`, but for those that were judged elsewhere."""
    rows, data = [], {}
    for target in TARGETS[kind]:
        if target.what != what or target.base in without:
            continue
        found = ratio(samples, ours, target.base)
        if found is None:
            continue
        rows.append([f"of {target.base}", f"{found:.2f}", f"{target.at_least:.2f}", verdict(found >= target.at_least)])
        data[target.base] = {"ratio": found, "target": target.at_least}
    return Table(f"{kind}: {what}, targets for {ours}", ["", "is", "at least", ""], rows, data) if rows else None
