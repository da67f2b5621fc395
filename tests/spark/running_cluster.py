"""A cluster with two applications on it, and what tests do to it: ask for work, kill an executor.

One application is the driver of a program, the other a Spark Connect server with a client here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.servers import children_of, has_process
from tests.spark import cluster_job, packed_environment
from tests.spark.cluster import WORKERS, Application, Connect, Master, Worker
from tests.spark.kills import DEADLINE, descendants, wait_for

_JOB = str(Path(cluster_job.__file__).resolve())


class Asked:
    """A process that runs `cluster_job`, asked through a socket."""

    def __init__(self, address: Path, log: Path) -> None:
        self.address, self.log = str(address), log
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._listener.settimeout(DEADLINE)
        self._connection: Any = None

    def __call__(self, name: str, **arguments: Any) -> Any:
        self.tell(name, **arguments)
        return self.answer()

    def tell(self, name: str, **arguments: Any) -> None:
        if self._connection is None:
            try:
                self._connection = Connection(self._listener.accept()[0].detach())
            except TimeoutError:
                raise TimeoutError(f"nobody was ready for work in {DEADLINE:.0f} s:\n{self._said()}") from None
        self._connection.send((name, arguments))

    def answer(self) -> Any:
        if not self._connection.poll(DEADLINE):
            raise TimeoutError(f"no answer in {DEADLINE:.0f} s:\n{self._said()}")
        is_done, found = self._connection.recv()
        assert is_done, f"{found}\n{self._said()}"
        return found

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def close(self) -> None:
        """The process ends when nobody can ask it any more."""
        self._listener.close()
        if self._connection is not None:
            self._connection.close()


class RunningCluster:
    """Started when made; the stack ends it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        def started(server: Any) -> None:
            stack.callback(server.stop)
            server.start()

        self.master = Master()
        with ThreadPoolExecutor() as pool:
            archiving = pool.submit(packed_environment.make, folder)
            started(self.master)
            self.workers = [Worker(self.master) for _ in range(WORKERS)]
            list(pool.map(started, self.workers))
            archive = archiving.result()
            self._wait_until_whole({})

            log = folder / "client.log"
            self.asked = {"connect": Asked(folder / "connect", log)}
            connect = Connect(self.master, str(folder / "env" / "bin" / "python"))
            application = Application(self.master, archive, _JOB, str(folder / "application"))
            self.asked["application"] = Asked(folder / "application", application.folder / "log")
            for asked in self.asked.values():
                stack.callback(asked.close)
            list(pool.map(started, (application, connect)))
        with log.open("wb") as output:
            client = subprocess.Popen(
                [sys.executable, _JOB, str(folder / "connect"), connect.url],
                env={**os.environ, "JAVA_HOME": ""},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        stack.callback(_see_the_end_of, client)
        stack.callback(self.asked["connect"].close)
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Until each application has its executors."""
        self._wait_until_whole({kind.name: kind.executors for kind in (Application, Connect)})

    def _wait_until_whole(self, cores: dict[str, int]) -> None:
        def is_whole() -> bool:
            with suppress(OSError):
                return self.master.is_whole(cores)
            return False

        wait_for(is_whole, f"a cluster with {cores}", self.master.folder / "log")

    def kill_executor(self, pid: int) -> None:
        """The one that this process of Python works for, with all its processes, as if the machine were gone."""
        executors = [one for worker in self.workers if worker.process for one in children_of(worker.process.pid)]
        executor = next(one for one in executors if pid in descendants(one))
        for one in (executor, *descendants(executor)):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def _see_the_end_of(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(DEADLINE)
    finally:
        process.kill()


def held(folder: Path, number: int, asked: Asked) -> int:
    """The process that is held at this number, as soon as there is one."""

    def processes() -> list[int]:
        found = [int(mark.suffix[1:]) for mark in folder.glob(f"held-{number}.*")]
        return [pid for pid in found if has_process(pid)]

    wait_for(lambda: bool(processes()), f"a task that comes to {number}", asked.log)
    return processes()[0]


def let_go(folder: Path, number: int) -> None:
    (folder / f"go-{number}").touch()
