"""A queue on one SQLite file, four consumer processes, and a kill -9 in the middle.

Three thousand messages of sixty customers (each customer's in order), five that always fail, and a
small workflow go through the queue. One consumer is killed while it holds leases. At the end the
consumers' own logs are compared with what was put.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue
from localqueue.policies import PerKeyFifoOrdering

LEASE_SECONDS = 2.0
ATTEMPTS = 3
CUSTOMERS = 60
FAILING = 5
WORKERS = ["worker-1", "worker-2", "worker-3", "worker-4"]
VICTIM = "worker-2"
WORKFLOW = {
    "extract": [],
    "clean-names": ["extract"],
    "clean-dates": ["extract"],
    "clean-prices": ["extract"],
    "report": ["clean-names", "clean-dates", "clean-prices"],
}


def open_queue(path: Path) -> PersistentQueue[dict[str, Any]]:
    return PersistentQueue(
        "jobs",
        store_path=path,
        lease_timeout=LEASE_SECONDS,
        max_attempts=ATTEMPTS,
        ordering_policy=PerKeyFifoOrdering(),
    )


def consume(path: Path, worker: str) -> None:
    """A consumer process: handle, write down what was handled, acknowledge."""
    pause = 0.02 if worker == VICTIM else 0.001
    with open_queue(path) as jobs, log_of(path, worker).open("a", buffering=1) as log:
        while True:
            try:
                messages = jobs.get_messages(10, timeout=60, leased_by=worker)
            except queue.Empty:
                return
            for message in messages:
                time.sleep(pause)
                if message.value["kind"] == "failing":
                    jobs.release(message, delay=0.1, error=ValueError("no such image"))
                    continue
                entry = {"at": time.monotonic(), "id": message.id, "value": message.value}
                log.write(json.dumps(entry) + "\n")
                jobs.ack(message)


def log_of(path: Path, worker: str) -> Path:
    return path.with_name(f"{worker}.log")


def handled_by(path: Path, worker: str) -> int:
    log = log_of(path, worker)
    return len(log.read_text().splitlines()) if log.exists() else 0


def put_work(jobs: PersistentQueue[dict[str, Any]], orders: int) -> list[str]:
    """Put everything and return the ids that must be handled."""
    ids = []
    for number in range(orders):
        customer = f"customer-{number % CUSTOMERS}"
        value = {"kind": "order", "customer": customer, "number": number}
        ids.append(jobs.put(value, ordering_key=customer).id)
        if (number + 1) % 1000 == 0:
            say(f"put {number + 1:,} messages")
    jobs.put_many([{"kind": "failing", "number": number} for number in range(FAILING)])
    say(f"put {FAILING} messages that will always fail")
    steps: dict[str, str] = {}
    for step, needs in WORKFLOW.items():
        value = {"kind": "step", "step": step}
        after = [steps[need] for need in needs]
        steps[step] = jobs.put(value, after=after, run_id="nightly").id
    say(f"put a workflow of {len(steps)} steps; {jobs.stats().waiting} wait for the first")
    return ids + list(steps.values())


def watch(jobs: PersistentQueue[dict[str, Any]], path: Path, victim: BaseProcess) -> None:
    """Report progress, kill the victim while it holds leases, return when the queue is drained."""
    killed_at = 0.0
    recovered = True
    shown = 0.0
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        stats = jobs.stats()
        held = stats.by_worker_id.get(VICTIM, 0)
        if not killed_at and held >= 3 and handled_by(path, VICTIM) >= 15:
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            killed_at, recovered = time.monotonic(), False
            held = jobs.stats().by_worker_id.get(VICTIM, 0)
            say(f"kill -9 {VICTIM}, which holds {held} leases")
        elif not recovered and not held:
            recovered = True
            say(f"all leases of {VICTIM} were recovered {time.monotonic() - killed_at:.1f} s later")
        left = stats.ready + stats.blocked + stats.delayed + stats.inflight + stats.waiting
        if time.monotonic() - shown > 0.5 or not left:
            shown = time.monotonic()
            say(
                f"to do {stats.ready + stats.blocked + stats.delayed:>5,}   in flight"
                f" {stats.inflight:>3}   waiting {stats.waiting}   dead letters {stats.dead}"
            )
        if not left:
            return
        time.sleep(0.05)
    sys.exit("the queue was not drained in five minutes")


def read_logs(path: Path) -> list[dict[str, Any]]:
    entries = []
    for worker in WORKERS:
        if log_of(path, worker).exists():
            lines = log_of(path, worker).read_text().splitlines()
            entries += [json.loads(line) | {"worker": worker} for line in lines]
    return sorted(entries, key=lambda entry: entry["at"])


def customers_in_order(first_times: list[dict[str, Any]]) -> int:
    numbers = defaultdict(list)
    for entry in first_times:
        if entry["value"]["kind"] == "order":
            numbers[entry["value"]["customer"]].append(entry["value"]["number"])
    return sum(found == sorted(found) for found in numbers.values())


def steps_in_order(first_times: list[dict[str, Any]]) -> int:
    seen: list[str] = []
    right = 0
    for entry in first_times:
        if entry["value"]["kind"] == "step":
            step = entry["value"]["step"]
            right += all(need in seen for need in WORKFLOW[step])
            seen.append(step)
    return right


def summarise(jobs: PersistentQueue[dict[str, Any]], path: Path, ids: list[str]) -> bool:
    """Print the summary; True when everything is as promised."""
    entries = read_logs(path)
    first_times = list({entry["id"]: entry for entry in reversed(entries)}.values())[::-1]
    handled = {entry["id"] for entry in entries}
    stats = jobs.stats()
    dead = jobs.dead_letters()
    tired = sum(message.attempts == ATTEMPTS for message in dead)
    left = stats.total - stats.dead
    facts = [
        ("put, to be handled", len(ids), len(ids)),
        ("handled at least once", len(ids), len(handled)),
        ("lost", 0, len(set(ids) - handled)),
        (f"dead letters, after {ATTEMPTS} attempts each", FAILING, tired),
        ("left in the queue", 0, left),
        ("customers whose messages kept their order", CUSTOMERS, customers_in_order(first_times)),
        ("workflow steps after all they wait for", len(WORKFLOW), steps_in_order(first_times)),
    ]
    print("\n  Summary                                      expected   found")
    for what, expected, found in facts:
        mark = "" if expected == found else "   <- wrong"
        print(f"  {what:<43} {expected:>9,} {found:>7,}{mark}")
    twice = len(entries) - len(handled)
    print(f"  {'handled twice, because of the kill':<43} {'-':>9} {twice:>7,}")
    share = {worker: sum(entry["worker"] == worker for entry in entries) for worker in WORKERS}
    print("\n  By consumer: " + ", ".join(f"{name} {count:,}" for name, count in share.items()))
    if dead:
        error = dead[0].last_error or {}
        print(f"  A dead letter says: {error.get('type')}: {error.get('message')}")
    return all(expected == found for _, expected, found in facts)


def say(text: str) -> None:
    print(f"  {time.monotonic() - STARTED:5.1f} s  {text}", flush=True)


STARTED = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, help="keep the files in this directory")
    parser.add_argument("--messages", type=int, default=3000)
    arguments = parser.parse_args()

    parent = arguments.path or os.environ.get("XDG_DATA_HOME") or None
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="localqueue-demo-", dir=parent))
    path = directory / "queue.sqlite3"
    print(f"A queue in {path}")

    spawn = multiprocessing.get_context("spawn")
    workers = {name: spawn.Process(target=consume, args=(path, name)) for name in WORKERS}
    try:
        with open_queue(path) as jobs:
            ids = put_work(jobs, arguments.messages)
            for worker in workers.values():
                worker.start()
            say(f"started {len(workers)} consumer processes: {', '.join(workers)}")
            watch(jobs, path, workers[VICTIM])
            good = summarise(jobs, path, ids)
    finally:
        for worker in workers.values():
            if worker.pid is not None:
                worker.terminate()
                worker.join()
        if arguments.path is None:
            shutil.rmtree(directory, ignore_errors=True)
    if not good:
        sys.exit("\nSomething is wrong: see the lines marked above.")
    print("\nNothing was lost.")


if __name__ == "__main__":
    main()
