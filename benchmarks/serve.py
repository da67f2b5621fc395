"""One queue in a process of its own, driven over stdin and stdout, one JSON object a line.

    python -P serve.py ADAPTER.py
    {"do": "open", "path": "/tmp/x"}     ->  {}
    {"do": "put", "n": 500}              ->  {"seconds": 0.0123}

Peers carry the same import names as we do, so each runs in its own virtual environment and this
file uses nothing but the standard library. Clocks are read here, around the operations alone, so
that the pipe costs the figures nothing.

An adapter is a module with a class `Adapter(path, **options)`, where the path may be the address of a server, that has

    put(item), lease() -> handle, ack(handle), close()

and where its queue offers them

    put_each(items, laps)               puts one by one inside an event loop of its own, appending the seconds of each
    put_many(items), lease_many(n), ack_many(handles), qsize(), stats(),
    try_lease() -> handle or None       does not wait
    wait(seconds) -> handle or None     waits the way the queue itself waits
    value(handle) -> item
    work(n)                             its own worker, a handler that does nothing, until n are done
    work_with(tally)                    the same with a handler that calls tally(), until tally.done is set; the clock
                                        runs from the first handler to the last, so that start-up costs nothing
    work_some(n)                        the same as work where more than n are there; returns how many it did
    start_worker(handler), stop_worker()
    fetch() -> list of bool             the results of all that was put, one call each; whether each was there
    forget()                            lets go of what was put
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

clock = time.perf_counter


def make_item(number: int) -> dict[str, Any]:
    """About 120 bytes of JSON; `n` tells messages apart."""
    return {
        "n": number,
        "task": "resize-image",
        "path": "uploads/2024/05/17/cat-and-dog.jpeg",
        "size": [1280, 720],
        "quality": 0.85,
        "notify": True,
    }


class Tally:
    """Counts handlers; thread-safe, because `list.append` is."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.moments: list[float] = []
        self.done = threading.Event()
        self.worked = self.work_done = 0.0

    def __call__(self) -> None:
        self.moments.append(clock())
        if len(self.moments) == 1:
            self.worked = time.process_time()
        if len(self.moments) == self.n:
            self.work_done = time.process_time()
            self.done.set()

    def cpu(self) -> float:
        """The processor time of this process between the first and the last."""
        return self.work_done - self.worked

    def seconds(self) -> float:
        if len(self.moments) < self.n:
            raise RuntimeError(f"{len(self.moments)} of {self.n} messages reached the handler")
        return max(self.moments) - min(self.moments)


class Server:
    def __init__(self, adapter_class: Callable[..., Any]) -> None:
        self.adapter_class = adapter_class
        self.queue: Any = None
        self.next_number = 0
        self.handles: list[Any] = []

    def items(self, n: int) -> list[dict[str, Any]]:
        start = self.next_number
        self.next_number += n
        return [make_item(i) for i in range(start, start + n)]

    def open(self, path: str, first: int = 0, **options: Any) -> dict[str, Any]:
        self.queue = self.adapter_class(path, **options)
        self.next_number = first
        self.handles = []
        return {}

    def close(self) -> dict[str, Any]:
        self.queue.close()
        self.queue = None
        return {}

    def offers(self, names: list[str]) -> dict[str, Any]:
        return {"offers": all(hasattr(self.queue, name) for name in names)}

    def fill(self, n: int) -> dict[str, Any]:
        """Untimed: grow the backlog in the quickest way the queue has."""
        if not hasattr(self.queue, "put_many"):
            return self.put_laps(n) if hasattr(self.queue, "put_each") else self.put(n)
        while n:
            batch = min(n, 5000)
            self.queue.put_many(self.items(batch))
            n -= batch
        return {}

    def put(self, n: int) -> dict[str, Any]:
        items = self.items(n)
        put = self.queue.put
        started = clock()
        for item in items:
            put(item)
        return {"seconds": clock() - started}

    def put_many(self, n: int, batch: int) -> dict[str, Any]:
        batches = [self.items(batch) for _ in range(n // batch)]
        put_many = self.queue.put_many
        started = clock()
        for items in batches:
            put_many(items)
        return {"seconds": clock() - started}

    def get_ack(self, n: int) -> dict[str, Any]:
        lease, ack = self.queue.lease, self.queue.ack
        started = clock()
        for _ in range(n):
            ack(lease())
        return {"seconds": clock() - started}

    def get_ack_many(self, n: int, batch: int) -> dict[str, Any]:
        lease_many, ack_many = self.queue.lease_many, self.queue.ack_many
        started = clock()
        for _ in range(n // batch):
            ack_many(lease_many(batch))
        return {"seconds": clock() - started}

    def put_laps(self, n: int) -> dict[str, Any]:
        """Like `put`, with the time of each; where a call waits for a server, reading the clock costs nothing.

        `cpu` is what this process spent on it: a figure that other processes on the machine hardly move.
        """
        items, laps = self.items(n), []
        worked = time.process_time()
        if hasattr(self.queue, "put_each"):
            started = clock()
            self.queue.put_each(items, laps)
            return {"seconds": clock() - started, "laps": laps, "cpu": time.process_time() - worked}
        put = self.queue.put
        started = before = clock()
        for item in items:
            put(item)
            after = clock()
            laps.append(after - before)
            before = after
        return {"seconds": clock() - started, "laps": laps, "cpu": time.process_time() - worked}

    def get_ack_laps(self, n: int) -> dict[str, Any]:
        """Like `get_ack`, with the time of each."""
        lease, ack, laps = self.queue.lease, self.queue.ack, []
        worked = time.process_time()
        started = before = clock()
        for _ in range(n):
            ack(lease())
            after = clock()
            laps.append(after - before)
            before = after
        return {"seconds": clock() - started, "laps": laps, "cpu": time.process_time() - worked}

    def lease(self, n: int) -> dict[str, Any]:
        lease = self.queue.lease
        started = clock()
        handles = [lease() for _ in range(n)]
        seconds = clock() - started
        self.handles = handles
        return {"seconds": seconds}

    def ack(self, n: int) -> dict[str, Any]:
        ack, handles = self.queue.ack, self.handles[:n]
        started = clock()
        for handle in handles:
            ack(handle)
        return {"seconds": clock() - started}

    def call(self, name: str, n: int) -> dict[str, Any]:
        """`qsize` or `stats`, n times."""
        method = getattr(self.queue, name)
        started = clock()
        for _ in range(n):
            method()
        return {"seconds": clock() - started}

    def produce(self, n: int) -> dict[str, Any]:
        """Put n messages among other processes; every call is timed, every failure counted."""
        put = self.queue.put
        laps, errors = [], 0
        started = time.monotonic()
        for item in self.items(n):
            before = clock()
            while True:
                try:
                    put(item)
                    break
                except Exception as error:
                    errors += 1
                    last_error(error)
            laps.append(clock() - before)
        return {"started": started, "ended": time.monotonic(), "laps": laps, "errors": errors}

    def consume(self, n: int) -> dict[str, Any]:
        """Lease and ack n messages among other processes."""
        try_lease, ack, value = self.queue.try_lease, self.queue.ack, self.queue.value
        laps, seen, errors = [], [], 0
        started = time.monotonic()
        while len(seen) < n:
            before = clock()
            try:
                handle = try_lease()
                if handle is None:
                    time.sleep(0.001)
                    continue
                ack(handle)
            except Exception as error:
                errors += 1
                last_error(error)
                continue
            laps.append(clock() - before)
            seen.append(value(handle)["n"])
        answer = {"started": started, "ended": time.monotonic(), "laps": laps, "errors": errors}
        return answer | {"seen": seen}

    def produce_batches(self, n: int, batch: int) -> dict[str, Any]:
        """Like `produce`, `batch` messages a call."""
        items = list(self.items(n))
        laps = []
        started = time.monotonic()
        for first in range(0, n, batch):
            before = clock()
            self.queue.put_many(items[first : first + batch])
            laps.append(clock() - before)
        return {"started": started, "ended": time.monotonic(), "laps": laps, "errors": 0}

    def consume_batches(self, n: int, batch: int) -> dict[str, Any]:
        """Like `consume`, up to `batch` messages a call."""
        laps: list[float] = []
        seen: list[Any] = []
        started = time.monotonic()
        while len(seen) < n:
            before = clock()
            handles = self.queue.try_lease_many(min(batch, n - len(seen)))
            if not handles:
                time.sleep(0.001)
                continue
            self.queue.ack_many(handles)
            laps.append(clock() - before)
            seen += [self.queue.value(handle)["n"] for handle in handles]
        return {"started": started, "ended": time.monotonic(), "laps": laps, "errors": 0, "seen": seen}

    def put_stamped(self, n: int, pause: float) -> dict[str, Any]:
        """Put n messages that carry the moment of their put, one every `pause` seconds."""
        for item in self.items(n):
            time.sleep(pause)
            self.queue.put(item | {"at": time.monotonic()})
        return {}

    def receive_stamped(self, n: int) -> dict[str, Any]:
        """How long each message took from before its put until this waiting process had it."""
        laps = []
        while len(laps) < n:
            handle = self.queue.wait(30.0)
            arrived = time.monotonic()
            laps.append(arrived - self.queue.value(handle)["at"])
            self.queue.ack(handle)
        return {"laps": laps}

    def work(self, n: int) -> dict[str, Any]:
        """The queue's own worker on a backlog of n, with a handler that does nothing."""
        if hasattr(self.queue, "work_with"):
            tally = Tally(n)
            self.queue.work_with(tally)
            return {"seconds": tally.seconds(), "cpu": tally.cpu()}
        worked, started = time.process_time(), clock()
        self.queue.work(n)
        return {"seconds": clock() - started, "cpu": time.process_time() - worked}

    def fetch(self) -> dict[str, Any]:
        """The results of what was put."""
        worked, started = time.process_time(), clock()
        found = self.queue.fetch()
        answer = {"seconds": clock() - started, "cpu": time.process_time() - worked}
        if not all(found):
            raise RuntimeError(f"{found.count(False)} of {len(found)} results were not there")
        return answer

    def forget(self) -> dict[str, Any]:
        """Let go of what was put."""
        self.queue.forget()
        return {}

    def work_some(self, n: int) -> dict[str, Any]:
        """The queue's own worker above a backlog that it does not reach the end of."""
        started = clock()
        done = self.queue.work_some(n)
        return {"seconds": clock() - started, "done": done}

    def handle_stamped(self, n: int) -> dict[str, Any]:
        """How long each of n messages of another process took from before its put to the start of the handler here."""
        laps: list[float] = []
        all_there = threading.Event()

        def handler(item: dict[str, Any]) -> None:
            laps.append(time.monotonic() - item["at"])
            if len(laps) == n:
                all_there.set()

        self.queue.start_worker(handler)
        arrived = all_there.wait(300)
        self.queue.stop_worker()
        if not arrived:
            raise TimeoutError(f"{len(laps)} of {n} messages reached the handler")
        return {"laps": laps}

    def put_to_handler(self, n: int, pause: float) -> dict[str, Any]:
        """From before a put in this thread until the handler of a worker in another thread begins.

        `puts` are the same clock's view of the put alone.
        """
        laps: list[float] = []
        puts: list[float] = []
        all_there = threading.Event()

        def handler(item: dict[str, Any]) -> None:
            laps.append(clock() - item["at"])
            if len(laps) == n:
                all_there.set()

        self.queue.start_worker(handler)
        for item in self.items(n):
            time.sleep(pause)
            before = clock()
            self.queue.put(item | {"at": before})
            puts.append(clock() - before)
        arrived = all_there.wait(120)
        self.queue.stop_worker()
        if not arrived:
            raise TimeoutError(f"{len(laps)} of {n} messages reached the handler")
        return {"laps": laps, "puts": puts}

    def block(self, seconds: float, threads: int = 1) -> dict[str, Any]:
        """Wait on a queue that stays empty, in this many threads."""
        waiters = [threading.Thread(target=self.queue.wait, args=(seconds,)) for _ in range(threads)]
        for waiter in waiters:
            waiter.start()
        for waiter in waiters:
            waiter.join()
        return {}


def last_error(error: Exception) -> None:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)


def load_adapter(path: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("bench_adapter", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Adapter


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr
    server = Server(load_adapter(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        gc.collect()
        try:
            answer = getattr(server, verb)(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
