"""A process that can be told from a later one with its pid, and is signalled only while it has a handler."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import suppress
from typing import NamedTuple, Self


class Process(NamedTuple):
    """`started` is in ticks since the host was booted: no two processes have it in common with their pid."""

    pid: int
    started: int

    @classmethod
    def running(cls, pid: int) -> Self:
        """The process that has the pid now."""
        started = _started(pid)
        if started is None:
            raise ProcessLookupError(errno.ESRCH, f"there is no process {pid} to signal")
        return cls(pid, started)

    def send(self, signum: int) -> bool:
        """Signal the process if it has a handler for that; False when it is no more."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle is of one process, whoever gets its pid later.
            if _started(self.pid) != self.started:
                return False
            if _catches(self.pid, signum):
                signal.pidfd_send_signal(handle, signum)
        except ProcessLookupError:
            return False
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EPERM):  # EAGAIN: as many as it can hold are waiting for it
                raise
        finally:
            os.close(handle)
        return True


class Entry(NamedTuple):
    """Who listens, as the name of a file. `token` tells the policies of one process apart."""

    process: Process
    signum: int
    token: str

    @property
    def name(self) -> str:
        return f"{self.process.pid}-{self.process.started}-{self.signum}-{self.token}"

    @classmethod
    def named(cls, name: str) -> Self:
        pid, started, signum, token = name.split("-")
        return cls(Process(int(pid), int(started)), int(signum), token)


def signal_entered(path: str, entry: Entry) -> bool:
    """Signal the process of an entry; False when it is no more.

    The lock keeps a process that leaves from taking its handler away between the look at it and the signal.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.fstat(file).st_nlink == 0 or entry.process.send(entry.signum)
    except BlockingIOError:  # it leaves
        return True
    finally:
        os.close(file)


def leave(path: str) -> None:
    """Remove an entry. When this returns, nobody signals because of it any more."""
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.unlink(path)
            fcntl.flock(file, fcntl.LOCK_EX)
        finally:
            os.close(file)


def _started(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            after_name = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] in (b"Z", b"X") else int(after_name[19])


def _catches(pid: int, signum: int) -> bool:
    with suppress(FileNotFoundError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False
