"""The everyday calls of this checkout and of another one, in turns: has a change cost speed?

python benchmarks/before_after.py ../before [sqlite|lmdb|postgres|redis|mongodb] [--rounds 9] [--share 1.0]

`../before` is another checkout of this project, such as `git worktree add ../before v1.2`. Each round is a new process
of each, on one private server or a new file, and rounds begin with the one and the other by turns. Medians of the time
on the clock and of the client's processor time; a ratio above 1 means that this checkout is faster. `--share` is how
many of the messages a round puts: on MongoDB a fifth unless told otherwise, because every commit waits for the disk
there, and a whole round of both takes most of a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

ROUND = """
import json, sys, time
from localqueue import PersistentQueue, Worker, open_store

value, took = {"n": 1, "text": "x" * 90}, {}

def measure(name, count, work):
    clock, processor = time.perf_counter(), time.process_time()
    work()
    took[name] = [(time.perf_counter() - clock) / count, (time.process_time() - processor) / count]

def get_and_ack(count):
    for _ in range(count):
        queue.ack(queue.get_message())

def in_batches(count):
    while count > 0:
        messages = queue.get_messages(50, block=False)
        queue.ack_many(messages)
        count -= len(messages)

def worker(prefetch):
    Worker(queue, lambda job: None, prefetch=prefetch).run_until_empty(signals=False)

def share(count):
    return max(50, int(count * float(sys.argv[3])))

with open_store(sys.argv[1], namespace=sys.argv[2]) as store:
    queue = PersistentQueue("jobs", store=store)
    queue.put(value)
    get_and_ack(1)
    one_by_one, many = share(500), share(10_000)
    measure("put", 3 * one_by_one, lambda: [queue.put(value) for _ in range(3 * one_by_one)])
    measure("get + ack", 2 * one_by_one, lambda: get_and_ack(2 * one_by_one))
    measure("worker", one_by_one, lambda: worker(1))
    measure("put_many", many, lambda: queue.put_many([value] * many))
    measure("get and ack 50 at a time", many // 2, lambda: in_batches(many // 2))
    measure("worker, prefetch=50", many - many // 2, lambda: worker(50))
print(json.dumps(took))
"""


@contextmanager
def places_for(kind: str) -> Iterator[dict[str, str]]:
    """The address of a store for all rounds of a side, which may keep its data in another form than the other one: a
    file or a namespace for each."""
    if kind in ("sqlite", "lmdb"):
        with tempfile.TemporaryDirectory() as folder:
            yield dict.fromkeys(("before", "after"), f"{kind}:///{folder}/{{}}.db")
        return
    from on_servers.places import PLACES

    places = PLACES[kind]()
    try:
        with places.fresh() as before, places.fresh() as after:
            yield {"before": before, "after": after}
    finally:
        places.stop()


def run(checkout: Path, url: str, namespace: str, share: float) -> dict[str, list[float]]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, "-c", ROUND, url, namespace, str(share)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    took: dict[str, list[float]] = json.loads(done.stdout)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="another checkout")
    parser.add_argument(
        "store", nargs="?", default="sqlite", choices=["sqlite", "lmdb", "postgres", "redis", "mongodb"]
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--share", type=float, help="of the messages that a round puts")
    arguments = parser.parse_args()
    share = arguments.share or (0.2 if arguments.store == "mongodb" else 1.0)
    sides = {"before": arguments.before.resolve(), "after": HERE}
    took: dict[str, list[dict[str, list[float]]]] = {side: [] for side in sides}
    with places_for(arguments.store) as urls:
        for number in range(arguments.rounds):
            for side in list(sides)[:: -1 if number % 2 else 1]:
                took[side].append(run(sides[side], urls[side].format(f"{side}-{number}"), f"{side}-{number}", share))
    print(f"{arguments.store}, medians of {arguments.rounds} rounds, microseconds a message\n")
    print(f"{'':28}{'before':>10}{'after':>10}{'clock':>8}{'processor':>11}")
    for name in took["before"][0]:
        clock, processor = (
            {side: statistics.median(one[name][kind] for one in rounds) * 1e6 for side, rounds in took.items()}
            for kind in (0, 1)
        )
        ratios = clock["before"] / clock["after"], processor["before"] / processor["after"]
        print(f"{name:28}{clock['before']:10.1f}{clock['after']:10.1f}{ratios[0]:8.2f}{ratios[1]:11.2f}")


if __name__ == "__main__":
    sys.exit(main())
