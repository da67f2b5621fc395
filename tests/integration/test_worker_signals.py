"""SIGTERM: finish what runs, give back the rest, exit 0. Once more: stop at once."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.workers import Worker
from localqueue.workers.signals import StopFlag
from tests.integration.worker_programs import Program, open_queue

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

THREADS = """
    def handler(value):
        say("begin", value)
        wait_for("go")
        while not worker.stopping.is_set():  # the signal has to get here first
            time.sleep(0.005)
        say("end", value)

    worker = Worker(queue, handler, prefetch=3, {options})
    worker.run()
    say("returned")
"""
PROCESSES = THREADS.replace("prefetch=3", 'prefetch=3, executor="processes"')
ASYNC = """
    async def handler(value):
        say("begin", value)
        while not os.path.exists(PLACE + "/go"):
            await asyncio.sleep(0.005)
        say("end", value)

    asyncio.run(AsyncWorker(queue, handler, concurrency=1, prefetch=2, {options}).run())
    say("returned")
"""
KINDS = pytest.mark.parametrize("text", [THREADS, PROCESSES, ASYNC], ids=["threads", "processes", "asyncio"])


@KINDS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_handler_finish_and_gives_back_the_rest(
    tmp_path: Path, text: str, number: int
) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many(range(3))
        with Program(tmp_path, text.format(options="")) as program:
            program.wait_for("begin 0")
            program.until(lambda: queue.stats().inflight == 3)
            program.send(number)
            if text is ASYNC:  # whose pump gives them back at once
                program.until(lambda: queue.stats().ready == 2)
            program.allow("go")
            assert program.end() == 0
            assert program.said == ["begin 0", "end 0", "returned"]
        again = queue.get_messages(3)
        assert [(message.value, message.tries) for message in again] == [(1, 1), (2, 1)]
        assert queue.stats().total == 2


@KINDS
def test_the_second_signal_does_not_wait(tmp_path: Path, text: str) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many(range(3))
        with Program(tmp_path, text.format(options="")) as program:
            program.wait_for("begin 0")
            program.until(lambda: queue.stats().inflight == 3)
            program.send(signal.SIGTERM)
            if text is ASYNC:
                program.until(lambda: queue.stats().ready == 2)
            program.send(signal.SIGINT)  # another one: two of a kind that are pending become one
            code = program.end()
            assert "end 0" not in program.said
            # A handler that is a task can be cancelled, so the worker ends in order; any other is cut off.
            assert code in ([0] if text is ASYNC else [128 + signal.SIGTERM, 128 + signal.SIGINT])
        stats = queue.stats()
        if text is THREADS:
            assert (stats.ready, stats.inflight) == (2, 1)  # the lease of the one that ran has to run out
        else:
            assert (stats.ready, stats.inflight) == (3, 0)
            assert sorted((m.value, m.tries) for m in queue.get_messages(3)) == [(0, 2), (1, 1), (2, 1)]


@KINDS
def test_a_shutdown_timeout_ends_the_wait(tmp_path: Path, text: str) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many(range(3))
        with Program(tmp_path, text.format(options="shutdown_timeout=0.2")) as program:
            program.wait_for("begin 0")
            program.until(lambda: queue.stats().inflight == 3)
            program.send(signal.SIGTERM)
            assert program.end() == 0
            assert program.said == ["begin 0", "returned"]
        assert queue.stats().ready == (2 if text is THREADS else 3)


def test_a_sync_handler_of_an_async_worker_does_not_keep_the_process_after_the_second_signal(tmp_path: Path) -> None:
    text = """
        def handler(value):
            say("begin", value)
            wait_for("never")

        asyncio.run(AsyncWorker(queue, handler).run())
        say("returned")
    """
    with open_queue(tmp_path) as queue:
        queue.put(0)
        with Program(tmp_path, text) as program:
            program.wait_for("begin 0")
            program.send(signal.SIGTERM)
            program.send(signal.SIGINT)
            assert program.end() == 0
        assert queue.stats().ready == 1


def test_a_signal_while_the_worker_stops_by_itself_does_not_deadlock() -> None:
    """A signal handler runs in the main thread, which may be inside of the very lock that stopping takes."""
    flag = StopFlag()
    with flag._told:
        flag.set()
        flag.clear()
        flag.set()
    assert flag.is_set() and flag.wait(0)


def test_signals_at_any_moment_of_many_short_runs_end_each_of_them() -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[int]("jobs", store=store)
        over = threading.Event()
        main = threading.main_thread().ident
        assert main is not None
        runs = 0

        def storm() -> None:
            while not over.is_set():
                signal.pthread_kill(main, signal.SIGUSR1)
                over.wait(0.0005)

        worker = Worker(queue, lambda value: None, concurrency=2)
        before = signal.signal(signal.SIGUSR1, lambda *_: worker.stop())
        thread = threading.Thread(target=storm)
        thread.start()
        try:
            while runs < 100:
                worker.run()
                runs += 1
        finally:
            over.set()
            thread.join()
            signal.signal(signal.SIGUSR1, before)
    assert runs == 100


def test_signal_handlers_are_put_back() -> None:
    with MemoryQueueStore() as store:
        mine = signal.getsignal(signal.SIGTERM)
        Worker(PersistentQueue[int]("jobs", store=store), lambda value: None).run_until_empty()
        assert signal.getsignal(signal.SIGTERM) is mine
        assert os.getpid()
