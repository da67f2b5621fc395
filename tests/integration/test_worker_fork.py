"""A process that a handler forks is the handler's: one that comes back ends there, and touches no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.worker_programs import Program, open_queue

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

WORKERS = {
    "threads": "Worker(queue, handler, concurrency=2).run_until_empty()",
    "processes": "Worker(queue, handler, executor='processes').run_until_empty()",
    "tasks": "asyncio.run(AsyncWorker(queue, on_loop, concurrency=2).run_until_empty())",
    "threads of a loop": "asyncio.run(AsyncWorker(queue, handler, concurrency=2).run_until_empty())",
}
ENDINGS = {"return": ("return", 0), "raise": ("raise ValueError('no')", 1), "exit": ("sys.exit(7)", 7)}


@pytest.mark.parametrize("work", WORKERS.values(), ids=WORKERS)
@pytest.mark.parametrize(("ending", "code"), ENDINGS.values(), ids=ENDINGS)
def test_a_process_that_a_handler_forked_ends_where_it_comes_back(
    tmp_path: Path, work: str, ending: str, code: int
) -> None:
    text = f"""
        def handler(value):
            pid = os.fork()
            if pid == 0:
                {ending}
            say("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        async def on_loop(value):
            handler(value)

        counts = {work}
        say("counts", counts.acked, counts.total)
    """
    with open_queue(tmp_path) as queue:
        queue.put_many(range(2))
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            assert program.said == [f"child {code}"] * 2 + ["counts 2 2"]
        assert queue.stats().total == 0


def test_a_forked_process_ends_although_another_thread_was_writing(tmp_path: Path) -> None:
    """What that thread had locked is locked for good in the child."""
    text = """
        import fcntl, struct, termios

        read, write = os.pipe()
        sys.stdout = os.fdopen(write, "w")
        threading.Thread(target=lambda: sys.stdout.write("x" * 1_000_000), daemon=True).start()
        while struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, b"0000"))[0] < 65536:
            time.sleep(0.005)

        def handler(value):
            pid = os.fork()
            if pid == 0:
                sys.exit(7)
            say("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        Worker(queue, handler).run_until_empty()
        os._exit(0)  # to flush would wait for ever
    """
    with open_queue(tmp_path) as queue:
        queue.put(1)
        with Program(tmp_path, text) as program:
            assert program.end() == 0
            assert program.said == ["child 7"]
