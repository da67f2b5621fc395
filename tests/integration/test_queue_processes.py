"""One SQLite file, many processes: everybody is woken, nobody gets a message twice, and a kill loses nothing."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.contracts import steps
from tests.processes import context

pytestmark = pytest.mark.multiprocess

PATIENCE = 3 * steps.PATIENCE

#: Children are forked from a server that has this module loaded, and inherit neither threads nor open stores.

START = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "q.db")


@pytest.fixture
def start() -> Iterator[START]:
    """Starts a function of this module in a process; none of them outlives the test."""
    started: list[Any] = []

    def run(work: Callable[..., None], *arguments: Any) -> Any:
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        started.append(process)
        return process

    yield run
    for process in started:
        if process.is_alive():
            process.kill()
        process.join(PATIENCE)


def finish(*processes: Any) -> None:
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def tell_when(queue: PersistentQueue[Any], method: str, event: Any) -> None:
    """Set `event` once this process waits through `listen` or `listen_capacity` of its store."""
    listen = getattr(queue.store, method)

    def listen_and_tell(what: Any, **options: Any) -> Any:
        waiter = listen(what, **options)
        event.set()
        return waiter

    setattr(queue.store, method, listen_and_tell)


def consume_one(path: str, listening: Any, got: Any) -> None:
    with PersistentQueue("jobs", store_path=path) as queue:
        tell_when(queue, "listen", listening)
        message = queue.get_message(timeout=PATIENCE)
        at = time.time()
        assert queue.ack(message)
        got.put((message.value, at))


@pytest.mark.parametrize("how", ["put", "put_many", "release", "delay", "after"])
def test_a_consumer_in_another_process_is_woken(path: str, start: START, how: str) -> None:
    """Without any notification configured, and whatever makes the message available."""
    listening, got = context.Event(), context.Queue()
    with PersistentQueue("jobs", store_path=path) as queue:
        first = None
        if how in ("release", "after"):
            queue.put("x" if how == "release" else "first")
            first = queue.get_message(block=False)
        if how == "after":
            queue.put("x", after=[first])
        consumer = start(consume_one, path, listening, got)
        assert listening.wait(PATIENCE)
        if how == "put":
            queue.put("x")
        elif how == "put_many":
            queue.put_many(["x"])
        elif how == "release":
            queue.release(first)
        elif how == "delay":
            queue.put("x", delay=0.1)
        else:
            queue.ack(first)
        assert got.get(timeout=PATIENCE)[0] == "x"
        finish(consumer)
        assert queue.stats().total == 0


def produce_one(path: str, blocked: Any, done: Any) -> None:
    with PersistentQueue("jobs", store_path=path, maxsize=1) as queue:
        tell_when(queue, "listen_capacity", blocked)
        queue.put("second")
        done.set()


@pytest.mark.parametrize("how", ["lease", "ack", "purge"])
def test_a_producer_blocked_by_capacity_is_woken_by_another_process(path: str, start: START, how: str) -> None:
    blocked, done = context.Event(), context.Event()
    with PersistentQueue("jobs", store_path=path, maxsize=1) as queue:
        first = queue.put("first")
        producer = start(produce_one, path, blocked, done)
        assert blocked.wait(PATIENCE)
        assert not done.is_set()
        if how == "lease":
            queue.get_message(block=False)
        elif how == "ack":
            queue.ack(first)
        else:
            queue.purge()
        assert done.wait(PATIENCE)
        finish(producer)
        assert queue.get_nowait() == "second"


def wait_for_run(path: str, waiting: Any, ended: Any) -> None:
    with PersistentQueue("jobs", store_path=path) as queue:
        tell_when(queue, "listen_run", waiting)
        stats = queue.wait_run("r", timeout=PATIENCE)
        assert stats is not None
        ended.put(stats.state)


def test_a_process_that_waits_for_a_run_sees_it_end(path: str, start: START) -> None:
    waiting, ended = context.Event(), context.Queue()
    with PersistentQueue("jobs", store_path=path) as queue:
        queue.put("x", run_id="r")
        waiter = start(wait_for_run, path, waiting, ended)
        assert waiting.wait(PATIENCE)
        queue.ack(queue.get_message(block=False))
        assert ended.get(timeout=PATIENCE) == "succeeded"
        finish(waiter)


def test_a_pause_stops_consumers_of_other_processes_and_a_resume_wakes_them(path: str, start: START) -> None:
    listening, got = context.Event(), context.Queue()
    with PersistentQueue("jobs", store_path=path) as queue:
        queue.pause()
        queue.put("x")
        consumer = start(consume_one, path, listening, got)
        assert listening.wait(PATIENCE)
        with pytest.raises(Empty):
            got.get(timeout=0.15)
        queue.resume()
        assert got.get(timeout=PATIENCE)[0] == "x"
        finish(consumer)


EACH = 150


def produce_many(path: str, producer: int) -> None:
    with PersistentQueue("jobs", store_path=path) as queue:
        for n in range(EACH):
            queue.put([producer, n])


def consume_until_told(path: str, got: Any) -> None:
    seen = []
    with PersistentQueue("jobs", store_path=path) as queue:
        while True:
            message = queue.get_message(timeout=60)
            assert message.attempts == 1
            assert queue.ack(message)
            if message.value == "stop":
                break
            seen.append(tuple(message.value))
    got.put(seen)


@pytest.mark.slow
def test_four_producers_and_four_consumers_pass_every_message_exactly_once(path: str, start: START) -> None:
    got = context.Queue()
    consumers = [start(consume_until_told, path, got) for _ in range(4)]
    producers = [start(produce_many, path, n) for n in range(4)]
    finish(*producers)
    with PersistentQueue("jobs", store_path=path) as queue:
        for _ in consumers:
            queue.put("stop")
        seen = Counter(value for _ in consumers for value in got.get(timeout=60))
        finish(*consumers)
        assert seen == Counter((producer, n) for producer in range(4) for n in range(EACH))
        assert queue.stats().total == 0
        assert queue.store.check().ok


def lease_and_hang(path: str, leased: Any, n: int, lease_timeout: float) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store_path=path, lease_timeout=lease_timeout)
    leased.send([message.id for message in queue.get_messages(n, timeout=PATIENCE)])
    signal.pause()


def kill_a_consumer_with_leases(start: START, path: str, n: int, lease_timeout: float) -> list[str]:
    """Let a process lease `n` messages and kill it; what it held."""
    receiver, sender = context.Pipe(duplex=False)  # a shared Queue could be left locked by the killed process
    victim = start(lease_and_hang, path, sender, n, lease_timeout)
    sender.close()
    assert receiver.poll(PATIENCE)
    held: list[str] = receiver.recv()
    kill(victim)
    receiver.close()
    return held


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def test_messages_of_a_killed_consumer_are_delivered_again(path: str, start: START) -> None:
    with PersistentQueue("jobs", store_path=path) as queue:
        put = queue.put_many(range(5))
        held = kill_a_consumer_with_leases(start, path, 3, 0.3)
        assert queue.stats().total == 5
        again: dict[str, int] = {}
        while len(again) < 5:
            message = queue.get_message(timeout=PATIENCE)
            again[message.id] = message.attempts
            assert queue.ack(message)
        assert set(again) == {message.id for message in put}
        assert {again[message_id] for message_id in held} == {2}
        assert queue.stats().total == 0


def test_a_message_that_kills_every_consumer_ends_as_a_dead_letter(path: str, start: START) -> None:
    with PersistentQueue("jobs", store_path=path, max_attempts=2, lease_timeout=0.2) as queue:
        poison = queue.put("poison")
        for _ in range(2):
            assert kill_a_consumer_with_leases(start, path, 1, 0.2) == [poison.id]
        queue.put("healthy", delay=0.3)
        assert queue.get_message(timeout=PATIENCE).value == "healthy"
        (dead,) = queue.dead_letters()
        assert (dead.id, dead.attempts) == (poison.id, 2)
        assert dead.last_error is not None
        assert dead.last_error["type"] == "AttemptsExhausted"


def put_forever(path: str, confirmed: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store_path=path)
    while True:
        confirmed.send(queue.put("x").id)


def test_every_put_that_a_killed_producer_saw_return_is_there(path: str, start: START) -> None:
    receiver, sender = context.Pipe(duplex=False)
    with PersistentQueue("jobs", store_path=path) as queue:
        producer = start(put_forever, path, sender)
        sender.close()
        confirmed = [receiver.recv() for _ in range(50)]
        kill(producer)
        try:
            while True:
                confirmed.append(receiver.recv())
        except (EOFError, OSError):
            receiver.close()
        stored = {message.id for message in queue.messages()}
        assert set(confirmed) <= stored
        assert len(stored - set(confirmed)) <= 1
        assert queue.store.check().ok
