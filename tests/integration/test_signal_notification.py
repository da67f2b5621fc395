"""Signals: only a process that listens is signalled, and its own handler goes on working."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localqueue import QueueMessage
from localqueue.contracts.peer import Peer, is_heard
from localqueue.contracts.steps import PATIENCE
from localqueue.notifications import SignalNotification
from localqueue.notifications.places import Places, key_of
from localqueue.notifications.process import Entry, Process

pytestmark = pytest.mark.multiprocess

JOBS = QueueMessage[Any]("a message", None, "jobs")


@pytest.fixture
def directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as made:
        yield made


@contextmanager
def idle_program() -> Iterator[subprocess.Popen[str]]:
    """A program that any signal it does not know would end."""
    with subprocess.Popen(
        [sys.executable, "-Sc", "print(flush=True); input()"], stdin=-1, stdout=-1, text=True
    ) as idle:
        assert idle.stdout is not None and idle.stdin is not None
        idle.stdout.readline()
        yield idle
        idle.stdin.write("\n")


def enter(directory: str, process: Process) -> Path:
    """What a listener of a queue enters."""
    places, key, name = Places(directory, "signals"), key_of("", "jobs"), Entry(process, signal.SIGUSR1, "x").name
    places.enter(directory, key, name)
    return Path(places.entry(directory, key, name))


def test_a_process_that_does_not_listen_is_not_signalled(directory: str) -> None:
    """It is entered, but has no handler: it has become another program."""
    with idle_program() as idle:
        process = Process.running(idle.pid)
        enter(directory, process)
        SignalNotification(directory=directory).notify(JOBS)
        SignalNotification(pids=[idle.pid]).notify(JOBS)
    assert idle.returncode == 0


def test_a_process_that_has_only_the_pid_is_not_signalled(directory: str) -> None:
    signals: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda signum, frame: signals.append(signum))
    try:
        with idle_program() as idle:
            entry = enter(directory, Process(idle.pid, Process.running(idle.pid).started - 1))
            SignalNotification(directory=directory).notify(JOBS)
            assert not entry.exists()
        assert idle.returncode == 0
        entry = enter(directory, Process.running(os.getpid()))
        SignalNotification(directory=directory).notify(JOBS)
        assert signals == []  # nor does one signal oneself
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_dead_listener_is_removed(directory: str, tmp_path: Path) -> None:
    make = functools.partial(SignalNotification, directory=directory)
    peer = Peer(make, str(tmp_path / "queues.sqlite"), "jobs")
    assert peer.ask("listen")
    assert len(Places(directory, "signals").listeners(key_of("", "jobs"))) == 1
    peer.signal(signal.SIGKILL)
    peer.process.join(PATIENCE)
    make().notify(JOBS)
    assert os.listdir(f"{directory}/signals") == []
    peer.close()


def test_processes_can_be_named_by_their_pids(directory: str, tmp_path: Path) -> None:
    peer = Peer(functools.partial(SignalNotification, directory=directory), str(tmp_path / "queues.sqlite"), "jobs")
    assert peer.ask("listen")
    SignalNotification(pids=[peer.process.pid or 0]).notify(JOBS)
    assert peer.ask("wait", PATIENCE)
    peer.close()
    with pytest.raises(ProcessLookupError, match="no process"):
        SignalNotification(pids=[2**30])


def test_the_earlier_handler_is_called_and_comes_back(directory: str) -> None:
    calls: list[int] = []

    def earlier(signum: int, frame: object) -> None:
        calls.append(signum)

    before = signal.signal(signal.SIGUSR2, earlier)
    try:
        one = SignalNotification(signal.SIGUSR2, "jobs", directory=directory)
        two = SignalNotification(signal.SIGUSR2, "mail", directory=directory)
        assert is_heard(one) and is_heard(two)
        signal.raise_signal(signal.SIGUSR2)
        assert one.wait(0) and two.wait(0)  # a signal names no queue
        assert calls == [signal.SIGUSR2]
        one.close()
        assert signal.getsignal(signal.SIGUSR2) is not earlier
        two.close()
        assert signal.getsignal(signal.SIGUSR2) is earlier
    finally:
        signal.signal(signal.SIGUSR2, before)


def _come_and_go(directory: str, queue: str) -> SignalNotification:
    for _ in range(200):
        with SignalNotification(queue=queue, directory=directory) as policy:
            policy.wait(0)
    return SignalNotification(queue=queue, directory=directory)


def test_who_leaves_while_others_signal_is_not_ended_by_it(directory: str, tmp_path: Path) -> None:
    peer = Peer(functools.partial(_come_and_go, directory), str(tmp_path / "queues.sqlite"), "jobs")
    policy = SignalNotification(directory=directory)
    peer.start("listen")
    while not peer.has_answered:
        policy.notify(JOBS)
        assert peer.process.exitcode is None
    assert peer.answer()
    peer.close()


def test_only_the_main_thread_can_install_the_handler(directory: str) -> None:
    failures: list[str] = []

    def listen() -> None:
        try:
            policy.wait(0)
        except RuntimeError as error:
            failures.append(str(error))

    def in_thread() -> None:
        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()

    with SignalNotification(queue="jobs", directory=directory) as policy:
        in_thread()
        assert "install() there before" in failures.pop()
        policy.install()
        in_thread()
        assert failures == [] and policy.live


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM, 0, 999, True])
def test_a_signal_that_means_something_else_is_refused(signum: int) -> None:
    with pytest.raises(ValueError, match="can not be used to wake a process"):
        SignalNotification(signum)


def test_pids_and_a_directory_are_two_ways(directory: str) -> None:
    with pytest.raises(ValueError, match="give one of them"):
        SignalNotification(pids=[os.getpid()], directory=directory)
