"""Killing a streaming job again and again, and counting what it left.

    python -m tests.spark.kills table|queue sqlite|postgres --kills 50 [--seed 1]

The victim is the Python of the driver, the JVM (driver and executors in one), or one of Spark's Python processes: the
workers that run tasks and the one that holds the stream reader. The moment is any within the work on a few batches.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue.stores.port import Changes, NewMessage
from tests.spark.kill_driver import ROWS_A_BATCH
from tests.stores import new_place

VICTIMS = ("driver", "jvm", "worker")
DEADLINE = 180.0


def descendants(pid: int) -> dict[int, str]:
    """The processes below this one, with the names of their programs."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
                parents.setdefault(int(rest.split()[1]), []).append((int(folder.name), name))
    found: dict[int, str] = {}
    look = [pid]
    while look:
        for child, name in parents.get(look.pop(), []):
            found[child] = name
            look.append(child)
    return found


class Job:
    """One run of the driver. Its output goes to a file, which is shown when something is wrong."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.output = folder / "output"
        with self.output.open("ab") as output:
            command = [sys.executable, "-m", "tests.spark.kill_driver", *arguments]
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def pick(self, victim: str, rng: random.Random) -> int | None:
        below = descendants(self.process.pid)
        javas = [pid for pid, name in below.items() if name == "java"]
        if victim == "driver":
            return self.process.pid
        if victim == "jvm":
            return rng.choice(javas) if javas else None
        pythons = [pid for java in javas for pid, name in descendants(java).items() if name.startswith("python")]
        return rng.choice(pythons) if pythons else None

    def ended(self) -> bool:
        return self.process.poll() is not None

    def clean_up(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def result(self) -> dict[str, Any] | None:
        lines = self.output.read_text(errors="replace").strip().splitlines()
        if self.process.returncode == 0 and lines and lines[-1].startswith('{"rows"'):
            found: dict[str, Any] = json.loads(lines[-1])
            return found
        return None


def wait_for(happened: Callable[[], bool], what: str, output: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{what} did not happen in {DEADLINE:.0f} s:\n{output.read_text(errors='replace')[-4000:]}"
            )
        time.sleep(0.01)


def fill(store: Any, total: int) -> int:
    """Put messages of which a third has ordering keys, and some fit no schema; how many those are."""
    content = [{"n": f"odd {n}" if n % 50 == 7 else n} for n in range(total)]
    keys = [f"k{n % 7}" if n % 3 == 0 else None for n in range(total)]
    new = [
        NewMessage(one, "in", json.dumps(value), ordering_key=key)
        for one, value, key in zip(store.mint(total), content, keys, strict=True)
    ]
    store.commit(Changes(enqueue=new))
    return sum(isinstance(one["n"], str) for one in content)


def campaign(direction: str, kind: str, kills: int, seed: int, *, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Kill the job `kills` times, let it end, and return what was put and what was found."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="localqueue-kills-"))
    place = new_place(kind, folder)
    total = (kills + 1) * ROWS_A_BATCH * 6  # a kill may come after several batches
    with place.open() as store:
        store.enable_journal()
        dead = fill(store, total)
        commits = folder / "checkpoint" / "commits"
        arguments = [direction, place.url, store.namespace, str(folder)]
        counts = dict.fromkeys(VICTIMS, 0)
        job = Job(arguments, folder)
        while sum(counts.values()) < kills:
            seen = len(list(commits.glob("[0-9]*"))) if commits.exists() else 0
            wait_for(
                lambda job=job, seen=seen: (
                    job.ended() or (commits.exists() and len(list(commits.glob("[0-9]*"))) > seen)
                ),
                "a batch",
                job.output,
            )
            time.sleep(rng.uniform(0.0, 1.5))  # the moment of the kill is the thing under test
            victim = rng.choice(VICTIMS)
            pid = job.pick(victim, rng)
            if job.ended() and job.result() is not None:
                break
            if pid is not None and not job.ended():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    counts[victim] += 1
                    say(f"kill {sum(counts.values())} of {kills}: {victim}")
            if victim != "worker" or job.ended():
                job.clean_up()
                job = Job(arguments, folder)
        wait_for(job.ended, "the end of the job", job.output)
        while job.result() is None:  # the last kill took a process without which the job could not go on
            job = Job(arguments, folder)
            wait_for(job.ended, "the end of the job", job.output)
        found = job.result() or {}
        left = store.stats("in")
        return {
            "direction": direction,
            "store": kind,
            "kills": counts,
            "put": total - dead if direction == "table" else total,
            **found,
            "left": left.total - left.dead + abs(left.dead - dead) if direction == "table" else 0,
            "folder": str(folder),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("direction", choices=["table", "queue"])
    parser.add_argument("store", choices=["sqlite", "postgres", "redis", "mongodb"])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = campaign(given.direction, given.store, given.kills, given.seed)
    print(json.dumps(found))
    lost, doubled = found["put"] - found["different"], found["rows"] - found["different"]
    print(f"{sum(found['kills'].values())} kills: {lost} lost, {doubled} doubled, {found['left']} left in the queue")
    sys.exit(bool(lost or doubled or found["left"]))


if __name__ == "__main__":
    main()
