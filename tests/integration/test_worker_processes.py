"""Handlers in processes: one dies without the others, its message comes back at once, and the process is replaced."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from localqueue.workers import Worker
from tests.integration.worker_programs import Program, is_alive, open_queue

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]


def test_several_processes_share_the_work_and_the_counts_of_all_are_returned(tmp_path: Path) -> None:
    text = """
        def handler(value):
            say("pid", os.getpid())
            while len(set(open(PLACE + "/said").read().split()) - {"pid"}) < 3:
                time.sleep(0.005)

        worker = Worker(queue, handler, executor="processes", concurrency=3)
        say("counts", worker.run_until_empty().acked, worker.counts.acked)
    """
    with open_queue(tmp_path) as queue:
        queue.put_many(range(6))
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            assert program.said[-1] == "counts 6 6"
        assert queue.stats().total == 0


@pytest.mark.crash
def test_a_process_that_is_killed_counts_as_an_attempt_and_its_message_comes_back_at_once(tmp_path: Path) -> None:
    text = """
        from localqueue.workers import current_job

        def handler(value):
            say("begin", value, current_job().message.tries)
            if value == 0 and current_job().message.tries == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        worker = Worker(queue, handler, executor="processes", prefetch=3)
        worker.run_until_empty()
    """
    with open_queue(tmp_path, lease_timeout=3600) as queue:
        queue.put_many(range(3))
        with Program(tmp_path, text, lease_timeout=3600) as program:
            assert program.end() == 0
            assert sorted(program.said) == ["begin 0 1", "begin 0 2", "begin 1 1", "begin 2 1"]
        assert queue.stats().total == 0


@pytest.mark.crash
@pytest.mark.parametrize("death", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "os._exit(3)"])
def test_a_message_that_kills_its_process_each_time_ends_as_a_dead_letter_and_harms_no_other(
    tmp_path: Path, death: str
) -> None:
    text = f"""
        def handler(value):
            if value == "poison":
                {death}
            say("done", value)

        Worker(queue, handler, executor="processes", prefetch=4, max_tries=2).run_until_empty()
    """
    with open_queue(tmp_path, lease_timeout=3600) as queue:
        queue.put_many(["a", "poison", "b", "c"])
        with Program(tmp_path, text, lease_timeout=3600) as program:
            assert program.end() == 0
            assert {"done b", "done c"} <= set(program.said)
        (dead,) = queue.dead_letters()
        assert (dead.value, dead.tries) == ("poison", 2)
        assert (dead.last_error or {})["type"] == "WorkerDied"
        assert queue.stats().total == 1


@pytest.mark.crash
def test_a_process_that_dies_is_replaced_and_the_others_are_not_disturbed(tmp_path: Path) -> None:
    text = """
        def handler(value):
            say(value, os.getpid())
            if value == "long":
                wait_for("go")
            elif value == "die":
                os._exit(1)
            say("done", value)

        Worker(queue, handler, executor="processes", concurrency=2, max_tries=1).run()
    """
    with open_queue(tmp_path) as queue:
        queue.put("long")
        with Program(tmp_path, text) as program:
            program.until(lambda: len(program.said) == 1)
            queue.put_many(["die", "after"])
            program.wait_for("done after")
            program.allow("go")
            program.wait_for("done long")
            program.send(signal.SIGTERM)
            assert program.end() == 0
            pids = dict(line.split() for line in program.said if not line.startswith("done"))
            assert len(set(pids.values())) == 3
        assert [message.value for message in queue.dead_letters()] == ["die"]


def test_a_handler_that_takes_too_long_has_its_process_ended(tmp_path: Path) -> None:
    text = """
        def handler(value):
            if value == "stuck":
                wait_for("never")

        class Telling(Worker):
            # Says who handles a message before its time begins, and has time for the other one however slow that is.
            def timeout_for(self, message):
                say(message.value, os.getpid())
                return super().timeout_for(message) if message.value == "stuck" else None

        Telling(queue, handler, executor="processes", timeout=0.2, max_tries=1, prefetch=2).run_until_empty()
    """
    with open_queue(tmp_path) as queue:
        queue.put_many(["stuck", "after"])
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            pids = dict(line.split() for line in program.said)
            assert pids["stuck"] != pids["after"] and not is_alive(int(pids["stuck"]))
        (dead,) = queue.dead_letters()
        assert (dead.value, (dead.last_error or {})["type"]) == ("stuck", "TimeoutError")


@pytest.mark.crash
def test_processes_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    text = """
        def handler(value):
            say(value, os.getpid())
            wait_for("go")
            say("done", value)

        Worker(queue, handler, executor="processes", concurrency=2).run()
    """
    with open_queue(tmp_path) as queue:
        queue.put_many(["a", "b"])
        with Program(tmp_path, text) as program:
            program.until(lambda: len(program.said) == 2)
            pids = [int(line.split()[1]) for line in program.said]
            program.send(signal.SIGKILL)
            program.end()
            program.allow("go")
            program.wait_for("done a", "done b")
            program.until(lambda: not any(is_alive(pid) for pid in pids))
        assert queue.stats().total == 0


def test_a_handler_may_stop_the_whole_worker(tmp_path: Path) -> None:
    text = """
        def handler(value):
            say(value)
            worker.stop()

        worker = Worker(queue, handler, executor="processes", concurrency=3)
        worker.run()
        say("returned")
    """
    with open_queue(tmp_path) as queue:
        queue.put("x")
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            assert program.said == ["x", "returned"]


def test_a_worker_stopped_as_its_processes_start_ends(tmp_path: Path) -> None:
    """The signal to stop must not get lost between the fork and the child's own signal handlers."""
    text = """
        for _ in range(20):
            worker = Worker(queue, print, executor="processes", concurrency=2)
            worker.stop()
            worker.run()
        say("returned")
    """
    with open_queue(tmp_path) as queue:
        queue.qsize()
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            assert program.said == ["returned"]


def test_a_worker_with_processes_can_run_in_this_process_twice(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        worker = Worker(queue, lambda value: None, executor="processes", concurrency=2)
        for expected in (3, 2):
            queue.put_many(range(expected))
            assert worker.run_until_empty(signals=False).acked == worker.counts.acked == expected
        assert queue.stats().total == 0
        assert len(queue.stats().last_seen_by_worker_id) == 2
        assert os.getpid() > 0
