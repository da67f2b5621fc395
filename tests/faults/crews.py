"""Workers of each kind on one store, and a restart of its server in the middle of their work."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from localqueue import PersistentQueue, current_job
from localqueue.contracts.steps import PATIENCE
from localqueue.message import QueueMessage
from localqueue.workers import AsyncWorker, Settled, Worker
from tests.unit.worker_steps import Running, eventually

MESSAGES, BEFORE = 60, 15
_OFTEN = 4  # so many times in vain, and the pauses between two tries of a worker have become long

_OPTIONS: dict[str, Any] = {"max_tries": 50}


class Crew:
    """A worker, its queue, and what it did. Handlers that start after some messages wait for the outage.

    The `witness` is a store at the same place that is not in a hurry to give up.
    """

    def __init__(self, name: str, store: Any, witness: Any, outage: threading.Event) -> None:
        self.name = name
        self.queue: PersistentQueue[int] = PersistentQueue(name, store=store, lease_timeout=2.0)
        self.after: PersistentQueue[int] = PersistentQueue(f"after-{name}", store=store)
        self.seen: PersistentQueue[int] = PersistentQueue(name, store=witness)
        self.seen_after: PersistentQueue[int] = PersistentQueue(f"after-{name}", store=witness)
        self.seen.put_many(range(MESSAGES))
        self.log: list[tuple[str, int, int, float]] = []
        self._outage = outage
        self._lock = threading.Lock()

    def handle(self, value: int) -> None:
        self.handle_plainly(value)
        current_job().put(value, to=self.after)

    def handle_plainly(self, value: int) -> None:
        self._note("run", current_job().message)
        if value >= BEFORE:
            assert self._outage.wait(PATIENCE)

    async def handle_on_the_loop(self, value: int) -> None:
        self._note("run", current_job().message)
        if value >= BEFORE:
            assert await asyncio.to_thread(self._outage.wait, PATIENCE)
        current_job().put(value, to=self.after)

    def settled(self, settled: Settled) -> None:
        self._note(settled.state, settled.message)

    def _note(self, what: str, message: QueueMessage[int]) -> None:
        with self._lock:
            self.log.append((what, message.value, message.attempts, time.monotonic()))

    def is_held_up(self) -> bool:
        return any(what == "run" and value >= BEFORE for what, value, _, _ in list(self.log))

    def first_ack_since(self, moment: float) -> float:
        """Seconds until a settle was confirmed."""
        acks = (at for what, _, _, at in list(self.log) if what == "acked" and at >= moment)
        return next(acks, float("inf")) - moment

    def assert_settled_once(self) -> None:
        stats = self.seen.stats()
        assert (stats.total, stats.dead) == (0, 0)
        assert {value for what, value, _, _ in self.log if what == "run"} == set(range(MESSAGES))
        confirmed: dict[int, int] = {}
        for what, value, attempt, _ in self.log:
            if what == "run":  # an earlier delivery, whose lease ran out before its handler began, may begin late
                again = attempt >= confirmed.get(value, attempt + 1)
                assert not again, f"{value} ran again after its ack was confirmed"
            elif what == "acked":
                assert value not in confirmed, "an ack was confirmed twice"
                confirmed[value] = attempt
        if self.name != "grouped":
            assert sorted(message.value for message in self.seen_after.messages()) == list(range(MESSAGES))


@contextmanager
def at_work(store: Any, witness: Any, outage: threading.Event) -> Iterator[list[Crew]]:
    """A worker with threads, one that prefetches and acks in groups, and one on an asyncio loop."""
    threads, grouped, loop = crews = [Crew(name, store, witness, outage) for name in ("threads", "grouped", "loop")]
    with ExitStack() as stack:
        plain = Worker(threads.queue, threads.handle, concurrency=3, on_settled=threads.settled, **_OPTIONS)
        batching = Worker(grouped.queue, grouped.handle_plainly, prefetch=8, on_settled=grouped.settled, **_OPTIONS)
        stack.enter_context(Running(plain))
        stack.enter_context(Running(batching))
        stack.enter_context(_on_a_loop(loop))
        yield crews


@contextmanager
def _on_a_loop(crew: Crew) -> Iterator[None]:
    workers: list[Any] = []
    made = threading.Event()

    async def main() -> None:
        worker = AsyncWorker(crew.queue, crew.handle_on_the_loop, concurrency=3, on_settled=crew.settled, **_OPTIONS)
        workers.extend((asyncio.get_running_loop(), worker))
        made.set()
        await worker.run()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert made.wait(PATIENCE)
    try:
        yield
    finally:
        loop, worker = workers
        loop.call_soon_threadsafe(worker.stop)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the worker does not stop"


class _Complaints(logging.Handler):
    """Counts what workers say about a store that does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.by_queue: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if "does not answer" in record.getMessage() and isinstance(record.args, tuple):
            self.by_queue[str(record.args[0])] += 1

    def __enter__(self) -> _Complaints:
        logging.getLogger("localqueue.workers").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("localqueue.workers").removeHandler(self)


def restart(server: Any, store: Any, witness: Any, how: str) -> dict[str, float]:
    """End the server in the middle of the work ("kill" or "shut_down"), and start it again when that was noticed.

    Returns, for each kind of worker, the seconds from the server being back to the next confirmed settle.
    """
    outage = threading.Event()
    with _Complaints() as complaints, at_work(store, witness, outage) as crews:
        eventually(lambda: all(crew.is_held_up() for crew in crews))
        getattr(server, how)()
        outage.set()
        eventually(lambda: all(complaints.by_queue[crew.name] >= _OFTEN for crew in crews))
        down = time.monotonic()
        server.start()
        back = time.monotonic() - down  # by then some may have gone on, and be done
        eventually(lambda: all(crew.first_ack_since(down) < float("inf") for crew in crews))
        eventually(lambda: all(crew.seen.stats().total == 0 for crew in crews))
    for crew in crews:
        crew.assert_settled_once()
    return {crew.name: max(0.0, crew.first_ack_since(down) - back) for crew in crews}
