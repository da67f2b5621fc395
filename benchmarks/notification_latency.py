"""From a stored message to the start of its handler, by each way to be woken, and what it costs to wait for that.

Across processes the clock starts when the message is committed, which is when its notification begins, and stops in the
handler of a worker in another process; both read the clock of the host. Messages come at random moments. Before the
first one the worker waits for five seconds, in which its processor time and its looks into the store are counted.

In one process the clock starts before the put. "By hand" are the same steps without a worker: put, lease, call, all in
one thread; and put, wake another thread with a lock, lease and call there.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Bench, Table, percentile, verdict
from localqueue import AsyncNotification, AsyncWorker, InProcessNotification, NoNotification, PersistentQueue, Worker
from localqueue.notifications import SignalNotification, SocketNotification
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.wake import StoreWaiter, Wake

KINDS = {"socket": "local socket", "signal": "signal", "none": "no notification (the store is watched)"}
_IDLE = 5.0


def run(bench: Bench) -> list[Table]:
    return [_across_processes(bench), _in_one_process(bench)]


def _make(kind: str, directory: str) -> Any:
    if kind == "socket":
        return SocketNotification("jobs", directory=directory)
    if kind == "signal":
        return SignalNotification(queue="jobs", directory=directory)
    return NoNotification()


class _Stamped:
    """Notes when each message was stored, which is when its notification begins."""

    notifies = notifies_on_put = True

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self.stored: list[int] = []

    def notify(self, message: Any) -> None:
        self.stored.append(time.monotonic_ns())
        self._policy.notify(message)

    def as_dict(self) -> dict[str, Any]:
        return dict(self._policy.as_dict())


def _across_processes(bench: Bench) -> Table:
    n = 100 if bench.quick else 600
    rows, data = [], {}
    for kind, name in KINDS.items():
        with bench.fresh_directory() as path, tempfile.TemporaryDirectory(prefix="lq") as directory:
            figures = data[name] = _measure(kind, f"{path}/queues.sqlite", directory, n)
        rows.append(
            [
                name,
                *(f"{figures[what] * 1000:.3f} ms" for what in ("p50", "p95", "p99", "max", "notify")),
                f"{figures['looks']:.1f}",
                f"{figures['polls']:.1f}",
                f"{figures['idle']:.2f} s",
            ]
        )
    best = data[KINDS["socket"]]
    met = best["p50"] <= 0.0005 and best["p99"] <= 0.005
    return Table(
        "stored in one process to handler start in another, SQLite",
        ["", "p50", "p95", "p99", "max", "notify p50", "looks/s", "polls/s", "idle CPU/min"],
        rows,
        data,
        note=f"{n} messages at random moments; socket p50 <= 0.5 ms and p99 <= 5 ms: {verdict(met)}",
    )


def _measure(kind: str, path: str, directory: str, n: int) -> dict[str, float]:
    worker = subprocess.Popen(
        [sys.executable, __file__, kind, path, directory, str(n)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    with worker, SQLiteQueueStore(path) as store, _closing(_make(kind, directory)) as policy:
        stamped, took = _Stamped(policy), []
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=stamped)
        idle = json.loads(worker.stdout.readline())
        for number in range(n):
            time.sleep(random.uniform(0.002, 0.03))
            queue.put(number)
            took.append(time.monotonic_ns() - stamped.stored[-1])
        started = json.loads(worker.stdout.readline())
    laps = [(handled - stored) / 1e9 for handled, stored in zip(started, stamped.stored, strict=True)]
    return {
        "p50": percentile(laps, 50),
        "p95": percentile(laps, 95),
        "p99": percentile(laps, 99),
        "max": max(laps),
        "notify": percentile(took, 50) / 1e9,
        **idle,
    }


class _closing:
    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __enter__(self) -> Any:
        return self._policy

    def __exit__(self, *_: object) -> None:
        if hasattr(self._policy, "close"):
            self._policy.close()


def _count_calls(owner: Any, name: str) -> Callable[[], int]:
    calls, plain = [0], getattr(owner, name)

    def counted(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        return plain(self, *arguments)

    setattr(owner, name, counted)
    return lambda: calls[0]


def _work(kind: str, path: str, directory: str, n: int) -> None:
    """The worker's process: waits, says what that has cost, then handles n messages and says when each began."""
    started: dict[int, int] = {}
    counts = [_count_calls(StoreWaiter, "look"), _count_calls(Wake, "_poll")]

    def handle(number: int) -> None:
        started[number] = time.monotonic_ns()
        if len(started) == n:
            worker.stop()

    def watch() -> None:
        time.sleep(1.0)
        before, cpu = [count() for count in counts], _cpu()
        time.sleep(_IDLE)
        looks, polls = ((count() - was) / _IDLE for count, was in zip(counts, before, strict=True))
        print(json.dumps({"idle": (_cpu() - cpu) * 60 / _IDLE, "looks": looks, "polls": polls}), flush=True)

    with SQLiteQueueStore(path) as store, _closing(_make(kind, directory)) as policy:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
        worker = Worker(queue, handle)
        threading.Thread(target=watch, daemon=True).start()
        worker.run()
    print(json.dumps([started[number] for number in range(n)]), flush=True)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _in_one_process(bench: Bench) -> Table:
    n, rounds = (100, 3) if bench.quick else (300, 9)
    ways: dict[str, Callable[[PersistentQueue[Any], int], list[float]]] = {
        "by hand, one thread": _by_hand,
        "by hand, another thread": _by_hand_in_a_thread,
        "Worker, InProcessNotification": _by_worker,
        "AsyncWorker, AsyncNotification": _by_async_worker,
    }
    policies = {
        "Worker, InProcessNotification": InProcessNotification,
        "AsyncWorker, AsyncNotification": AsyncNotification,
    }
    laps: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, measure in ways.items():
            with bench.fresh_directory() as path, SQLiteQueueStore(f"{path}/queues.sqlite") as store:
                policy = policies.get(name, NoNotification)()
                found = measure(PersistentQueue("jobs", store=store, notification_policy=policy), n)
                laps[name] += found if turn else []
    rows, data = [], {}
    base = [percentile(laps[name], 50) for name in list(ways)[:2]]
    for name, found in laps.items():
        p50, p99 = percentile(found, 50), percentile(found, 99)
        data[name] = {"p50": p50, "p99": p99, "of_one_thread": p50 / base[0], "of_two_threads": p50 / base[1]}
        rows.append([name, f"{p50 * 1000:.3f} ms", f"{p99 * 1000:.3f} ms", *(f"{p50 / one:.2f}" for one in base)])
    worker, loop = (data[name] for name in policies)
    return Table(
        "before the put to handler start in one process, SQLite",
        ["", "p50", "p99", "of one thread", "of two threads"],
        rows,
        data,
        note=(
            f"medians of {rounds} rounds of {n} puts; Worker <= 1.2 of two threads by hand: "
            f"{verdict(worker['of_two_threads'] <= 1.2)}, of one thread: {verdict(worker['of_one_thread'] <= 1.2)}; "
            f"AsyncWorker <= 1 ms: {verdict(loop['p50'] <= 0.001)}"
        ),
    )


def _pause() -> None:
    time.sleep(random.uniform(0.001, 0.004))


def _by_hand(queue: PersistentQueue[Any], n: int) -> list[float]:
    laps: list[float] = []
    for _ in range(n):
        _pause()
        before = time.perf_counter()
        queue.put(0)
        message = queue.get_message(block=False)
        laps.append(time.perf_counter() - before)
        queue.ack(message)
    return laps


def _by_hand_in_a_thread(queue: PersistentQueue[Any], n: int) -> list[float]:
    stored, before, laps = threading.Lock(), [0.0], []
    handled = threading.Semaphore(0)
    stored.acquire()

    def consume() -> None:
        for _ in range(n):
            stored.acquire()
            message = queue.get_message(block=False)
            laps.append(time.perf_counter() - before[0])
            queue.ack(message)
            handled.release()

    thread = threading.Thread(target=consume)
    thread.start()
    for _ in range(n):
        _pause()
        before[0] = time.perf_counter()
        queue.put(0)
        stored.release()
        handled.acquire()
    thread.join()
    return laps


def _put_each(queue: PersistentQueue[Any], n: int, before: list[float], handled: threading.Semaphore) -> None:
    for _ in range(n):
        _pause()
        before[0] = time.perf_counter()
        queue.put(0)
        handled.acquire()


def _by_worker(queue: PersistentQueue[Any], n: int) -> list[float]:
    before, handled, laps = [0.0], threading.Semaphore(0), []

    def handle(_: int) -> None:
        laps.append(time.perf_counter() - before[0])
        handled.release()

    worker = Worker(queue, handle)
    thread = threading.Thread(target=worker.run)
    thread.start()
    _put_each(queue, n, before, handled)
    worker.stop()
    thread.join()
    return laps


def _by_async_worker(queue: PersistentQueue[Any], n: int) -> list[float]:
    before, handled, laps = [0.0], threading.Semaphore(0), []

    async def handle(_: int) -> None:
        laps.append(time.perf_counter() - before[0])
        handled.release()

    worker = AsyncWorker(queue, handle)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run(signals=False)))
    thread.start()
    _put_each(queue, n, before, handled)
    worker.stop()
    thread.join()
    return laps


if __name__ == "__main__":
    if len(sys.argv) == 5:
        _work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        whole = Bench([], directory=None, quick="--quick" in sys.argv)
        for table in run(whole):
            table.print()
        whole.close()
        assert not Path(whole.root).exists()
