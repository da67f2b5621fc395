"""Real servers for tests: a private instance of each, on a free loopback port, with its data in a fresh directory.

`Postgres`, `Redis` and `MongoDB`, and the brokers of tests/broker_servers.py, start on `start()`, are killed the hard
way by `kill()`, come back with `start()` on the same port and data, and are gone after `stop()`. One that finds its
port taken when it first starts takes another. One of each is shared by all tests of a pytest process: ask for the
fixtures of tests/conftest.py. A test that kills a server makes one of its own. Where a server can not be had the test
is skipped, and under CI=true a skip fails.

A server does not outlive the process that started it, however that one ends: a small shell beside each server waits
for this, ends the server and removes its folder.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

_TRIES = 20

# Writes down its process id before it becomes the server. It can not when the folder was removed, and then there is no
# server: one is never missed by who removes the folder.
_LAUNCH = 'echo $$ >"$0/pid" && exec "$@"'

# Its input ends when the process at the other end does, in whatever way. One that is dead but not yet reaped by its
# parent still has a process id.
_WATCH = """
read -r _
mv "$0" "$0.gone" 2>/dev/null || exit 0
pid=$(cat "$0.gone/pid" 2>/dev/null)
tries=100
if [ -n "$pid" ]; then
    kill -s "$1" "$pid"
    while case $(ps -o stat= -p "$pid") in "" | Z*) false ;; esac && [ $((tries -= 1)) -gt 0 ]; do
        sleep 0.05
    done
    kill -s KILL -- "-$pid"
fi
until rm -rf "$0.gone" || [ $((tries -= 1)) -lt 0 ]; do
    sleep 0.05
done
"""
_chance = random.SystemRandom()  # tests may have seeded the other one


def free_port() -> int:
    """A port that nobody listens on.

    It lies below those that the system gives to clients: while a server is down one of them could take its port, even
    by connecting to itself, and the server could not come back.
    """
    while True:
        port = _chance.randrange(18_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


_watches: list[subprocess.Popen[bytes]] = []


def _leave_the_watches() -> None:
    """A fork does not hold them up: they wait for the process that started the servers."""
    for watch in _watches:
        if watch.stdin is not None:
            watch.stdin.close()


os.register_at_fork(after_in_child=_leave_the_watches)


class PortTaken(Exception):
    """A server runs without one of its ports, which another process has."""


class Server(ABC):
    """One server process and its data."""

    name: ClassVar[str]
    port_taken: ClassVar[re.Pattern[str]] = re.compile("(?i)address already in use")  # how its log says so

    def __init__(self) -> None:
        self.take_ports()
        self.folder = Path(tempfile.mkdtemp(prefix=f"localqueue-{self.name}-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._was_ready = False
        self._watch = subprocess.Popen(
            ["sh", "-c", _WATCH, str(self.folder), self.end_signal.name.removeprefix("SIG")],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        _watches.append(self._watch)
        atexit.register(self.stop)

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def launch(self) -> subprocess.Popen[bytes]: ...

    def as_user(self) -> dict[str, Any]:
        """How to run what refuses to run as root: in the folder, which then belongs to another user."""
        where: dict[str, Any] = {"cwd": str(self.folder)}
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            where.update(user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        return where

    def run(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the server's program, in a session of its own: Ctrl-C is for the tests."""
        command = ("sh", "-c", _LAUNCH, str(self.folder), *command)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)

    @abstractmethod
    def ready(self) -> bool:
        """Whether the server takes commands; may raise while it does not."""

    def take_ports(self) -> None:
        """Choose among the ports that are free now; another process may be quicker to use them."""
        self.port = free_port()

    def start(self) -> None:
        """Start and wait until commands are taken: on the data and, once it was ready, on the port of before."""
        assert self.process is None, f"{self.name} is running"
        for _ in range(_TRIES):
            if self._starts():
                self._was_ready = True
                return
            if not self._was_ready:
                self.take_ports()
            time.sleep(0.05)  # the port may be taken by who only looks whether it is free
        raise RuntimeError(f"{self.name} found no free port in {_TRIES} tries, the last was {self.port}: {self.log()}")

    def _starts(self) -> bool:
        """False when a port was taken."""
        size = len(self._whole_log())
        process = self.process = self.launch()
        deadline = time.monotonic() + self.ready_within
        last: Exception | None = None
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self.kill()  # what it has started, if anything
                if self.port_taken.search(self._whole_log(), size):
                    return False
                raise RuntimeError(f"{self.name} ended at once: {self.log()}")
            try:
                if has_port(process.pid, self.port) and self.ready():
                    return True
            except PortTaken:
                self.kill()
                return False
            except Exception as error:
                last = error
            time.sleep(0.02)  # between two looks at a server that is starting
        raise RuntimeError(f"{self.name} was not ready within {self.ready_within} s ({last}): {self.log()}")

    def kill(self) -> None:
        """SIGKILL, as a crash of the machine's process would be."""
        self._end(signal.SIGKILL)

    def shut_down(self) -> None:
        """An orderly end; the data stays."""
        self._end(self.stop_signal)

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL  # when the data is not wanted any more
    ready_within: ClassVar[float] = 60.0
    ends_within: ClassVar[float] = 20.0

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(self.ends_within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.process = None
        (self.folder / "pid").unlink(missing_ok=True)

    def stop(self) -> None:
        if os.getpid() != self._pid:
            return
        self._end(self.end_signal)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._watch.communicate()

    def log(self) -> str:
        return self._whole_log()[-2000:] or "no log"

    def _whole_log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


class Postgres(Server):
    name = "postgres"
    stop_signal = signal.SIGINT
    end_signal = signal.SIGQUIT  # at once, but not without removing what it shares in memory

    def __init__(self, *settings: str) -> None:
        super().__init__()
        self.bin = _postgres_bin()
        self.settings = settings
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8")

    @property
    def url(self) -> str:
        return f"postgresql://test@127.0.0.1:{self.port}/postgres"

    def launch(self) -> subprocess.Popen[bytes]:
        options = [part for setting in self.settings for part in ("-c", setting)]
        return self.run(
            *(str(self.bin / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)),
            *("-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"),
            *("-c", "dynamic_shared_memory_type=mmap", *options),  # in the folder, and gone with it
            **self.as_user(),
        )

    def kill(self) -> None:
        """The postmaster and its backends: a backend that outlives the postmaster could finish a commit."""
        backends = [] if self.process is None else children_of(self.process.pid)
        super().kill()
        for pid in backends:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(has_process(pid) for pid in backends):
            time.sleep(0.005)  # until the system has ended them
        self._release_memory()

    def _release_memory(self) -> None:
        """What a killed server leaves in the system's shared memory, and its own note of that."""
        note = self.folder / "data" / "postmaster.pid"
        with suppress(OSError, IndexError):
            segment = note.read_text().splitlines()[6].split()[1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True)
        note.unlink(missing_ok=True)

    def ready(self) -> bool:
        import psycopg

        with psycopg.connect(self.url, connect_timeout=2) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([str(self.bin / program), *arguments], check=True, capture_output=True, **self.as_user())


def has_process(pid: int) -> bool:
    """Whether it runs; not one that has ended and waits to be asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def has_port(pid: int, port: int) -> bool:
    """Whether this process listens on that port of 127.0.0.1: another server there would answer as well."""
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    sockets = {f"socket:[{row[9]}]" for row in rows if " ".join(row[1:4]) == listening}
    return any(os.readlink(open_file) in sockets for open_file in Path(f"/proc/{pid}/fd").iterdir())


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if status.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(int(status.parent.name))
    return found


def _postgres_bin() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("PostgreSQL is not installed: run ./script/test, or install the package postgresql")
    return Path(on_path).resolve().parent


class Redis(Server):
    name = "redis"

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.options = options or ("--appendonly", "yes", "--appendfsync", "always")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def launch(self) -> subprocess.Popen[bytes]:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("Redis is not installed: run ./script/test, or install the package redis-server")
        return self.run(
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
            *("--save", "", *self.options),
        )

    def ready(self) -> bool:
        import redis

        with redis.Redis(port=self.port, socket_timeout=2) as client:
            return bool(client.ping())


class MongoDB(Server):
    name = "mongodb"

    def __init__(self, *parameters: str, replica_set: bool = True) -> None:
        super().__init__()
        self.parameters = parameters
        self.replica_set = replica_set
        (self.folder / "data").mkdir()

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/" + ("?replicaSet=rs0" if self.replica_set else "")

    def launch(self) -> subprocess.Popen[bytes]:
        return self.run(
            *(str(_mongod()), "--dbpath", str(self.folder / "data"), "--port", str(self.port)),
            *("--bind_ip", "127.0.0.1", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"),
            *(("--replSet", "rs0", "--oplogSize", "64") if self.replica_set else ()),
            *(part for parameter in self.parameters for part in ("--setParameter", parameter)),
        )

    def ready(self) -> bool:
        import pymongo
        from pymongo.errors import OperationFailure

        with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=500) as client:
            if not self.replica_set:
                return bool(client.admin.command("ping")["ok"])
            try:
                return bool(client.admin.command("hello")["isWritablePrimary"]) or self._initiate(client)
            except OperationFailure:
                return self._initiate(client)

    def _initiate(self, client: Any) -> bool:
        """A new replica set of this one server; False while it elects itself."""
        try:
            client.admin.command("replSetGetStatus")
        except Exception:
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        return False


@functools.cache
def _mongod() -> Path:
    """The program inside the wheel; importing the package would start it."""
    spec = importlib.util.find_spec("fiftyone")
    for place in () if spec is None else spec.submodule_search_locations or ():
        program = Path(place) / "db" / "bin" / "mongod"
        if program.exists():
            program.chmod(0o755)
            break
    else:
        on_path = shutil.which("mongod")
        if on_path is None:
            pytest.skip("MongoDB is not installed: run ./script/test, or put mongod on the PATH")
        program = Path(on_path)
    tried = subprocess.run([program, "--version"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"mongod does not run here: {tried.stderr.strip()}")
    return program


_running: dict[str, Server] = {}


def shared(kind: Callable[[], Server]) -> Any:
    """The server of this kind that all tests of this process use."""
    name = getattr(kind, "name", kind.__name__)
    if name not in _running:
        server = kind()
        server.start()
        _running[name] = server
    return _running[name]
