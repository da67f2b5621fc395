"""An application of tasks for workers that get killed: results, limits and a schedule, and a log of what happened.

The log is a file that every process appends to, a line at a time, so that it survives whoever wrote it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from localqueue import Tasks, current_job
from localqueue.limits.book import Book
from localqueue.limits.page import KIND
from localqueue.schedules.schedule import TICK_HEADER
from localqueue.stores.port import Changes, Committed
from tests.limit_histories import Span
from tests.stores import Place

LEASE = 1.0
AT_ONCE = 2
IN_A_SECOND = 20


class Log:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write(self, *words: object) -> None:
        line = json.dumps([time.monotonic(), os.getpid(), *words]) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def lines(self, what: str) -> list[list[Any]]:
        if not self._path.exists():
            return []
        return [line for text in self._path.read_text().splitlines() if (line := json.loads(text))[2] == what]


def shop(store: Any, log: Log) -> Tasks:
    """Tasks whose handlers write down when they begin and end, by a clock that all processes share."""
    tasks = Tasks(store, keep_results=3600.0, lease_timeout=LEASE)

    @tasks.task(queue="limited", retries=50, retry_delay=0, concurrency=AT_ONCE)
    def narrow(number: int) -> list[int]:
        log.write("begin", number, lease_end(store))
        time.sleep(0.02)
        log.write("end", number)
        return [number, current_job().message.attempts]

    @tasks.task(queue="paced", retries=50, retry_delay=0, rate=f"{IN_A_SECOND}/s", key=lambda number: number % 2)
    def paced(number: int) -> list[int]:
        return [number, current_job().message.attempts]

    @tasks.every(0.1, queue="ticks", retries=50, retry_delay=0, missed="all")
    def tick() -> None:
        message = current_job().message
        log.write("tick", message.headers[TICK_HEADER], message.id)

    return tasks


def lease_end(store: Any) -> float:
    """Until when the job that runs surely has its lease, by the clock of the log. Perhaps it is renewed later on."""
    now, until = time.monotonic(), current_job().message.leased_until
    assert until is not None
    return now + until - float(store.now())


def note_starts(store: Any, log: Log) -> None:
    """Write down the starts that each commit notes of a rate."""
    commit = store.commit

    def noted(changes: Changes) -> Committed:
        committed: Committed = commit(changes)
        for write in changes.records:
            if write.kind == KIND and write.value is not None:
                log.write("starts", write.key, [one.at for one in Book.decode(write.value).starts])
        return committed

    store.commit = noted


def work(connection: Connection, place: Place, path: str) -> None:
    """A process that works for the shop until it is killed or told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # also when it is told before it works
    connection.send("here")
    log = Log(path)
    with place.open() as store:
        note_starts(store, log)
        shop(store, log).worker(concurrency=4).run()
    connection.send("done")


def spans(log: Log, killed: dict[int, float]) -> list[Span]:
    """When the handlers of the narrow task ran; one that was killed ran until then.

    No longer than their leases: the place of one whose process stood still for that long is given to another.
    """
    begun: dict[tuple[int, int], tuple[float, float]] = {}
    found = []
    for at, process, what, number, *until in sorted([*log.lines("begin"), *log.lines("end")]):
        if what == "begin":
            begun[process, number] = at, *until
        elif (begin := begun.pop((process, number), None)) is not None:
            found.append((*begin, at))
    found += [(*begin, killed[process]) for (process, _), begin in begun.items() if process in killed]
    return [Span("narrow", begin, min(until, end)) for begin, until, end in found if begin < until]


def starts(log: Log) -> dict[str, Counter[float]]:
    """The starts of each limit with a rate, each as often as it was there at once."""
    found: dict[str, Counter[float]] = defaultdict(Counter)
    for _, _, _, key, times in log.lines("starts"):
        found[key] |= Counter(times)
    return found
