"""Local sockets: who is found, what is left behind, and what is refused."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage
from localqueue.contracts.peer import Peer, is_heard
from localqueue.contracts.steps import MOMENT, PATIENCE
from localqueue.notifications import SocketNotification, ear, places
from tests.integration.test_fork import exit_code_of, forked

pytestmark = pytest.mark.multiprocess


@pytest.fixture
def directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="lq") as made:  # the path of a socket must be short
        yield made


def told(queue: str) -> QueueMessage[Any]:
    return QueueMessage("a message", None, queue)


def files_below(directory: str) -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def _listen_to_many(directory: str, queue: str) -> SocketNotification:
    """A policy of a process that listens to a busy queue with another policy."""
    busy = SocketNotification("busy", directory=directory)
    busy.attach(lambda: None)
    return SocketNotification(queue, directory=directory)


def test_a_queue_is_not_forgotten_behind_a_full_socket_of_another(directory: str, tmp_path: Path) -> None:
    peer = Peer(functools.partial(_listen_to_many, directory), str(tmp_path / "queues.sqlite"), "quiet")
    assert peer.ask("listen")
    policy = SocketNotification(directory=directory)
    peer.signal(signal.SIGSTOP)
    try:
        for _ in range(1000):  # more than any socket holds
            policy.notify(told("busy"))
        policy.notify(told("quiet"))
    finally:
        peer.signal(signal.SIGCONT)
    assert peer.ask("wait", PATIENCE)
    peer.close()


def test_a_thousand_queues_share_one_socket_and_one_thread(directory: str) -> None:
    before = threading.active_count()
    rung: list[int] = []
    policies = [SocketNotification(directory=directory) for _ in range(3)]
    bells = [functools.partial(rung.append, number) for number in range(1000)]
    for number, bell in enumerate(bells):
        policies[number % 3].attach(bell, f"queue {number}")
    assert threading.active_count() == before + 1
    assert len(os.listdir(f"{directory}/p")) == 1

    SocketNotification(directory=directory).notify(told("queue 77"))
    assert rung == [77]
    for number, bell in enumerate(bells):
        policies[number % 3].detach(bell, f"queue {number}")
    assert threading.active_count() == before
    assert files_below(directory) == []


def test_what_a_killed_listener_left_is_removed_by_a_producer_and_by_a_listener(directory: str, tmp_path: Path) -> None:
    make = functools.partial(SocketNotification, directory=directory)
    for meet in (lambda policy: policy.notify(told("jobs")), lambda policy: policy.attach(print, "mail")):
        peer = Peer(make, str(tmp_path / "queues.sqlite"), "jobs")
        assert peer.ask("listen")
        peer.signal(signal.SIGKILL)
        peer.process.join(PATIENCE)
        (name,) = os.listdir(f"{directory}/p")
        with SocketNotification(directory=directory) as policy:
            meet(policy)
            assert not any(name in path for path in files_below(directory))
        peer.close()
        assert files_below(directory) == []


def test_names_of_any_characters_are_told_apart(directory: str) -> None:
    names = ["jobs", "jobs/../mail", "a\x00b", "ä" * 5000, "\udcff", " ", "jobs "]
    rung: list[str] = []
    with SocketNotification(directory=directory) as policy:
        for name in names:
            policy.attach(functools.partial(rung.append, name), name)
        other = SocketNotification(directory=directory)
        for name in names:
            other.notify(told(name))
        SocketNotification(directory=directory, channel="another").notify(told("jobs"))
    assert rung == names


def test_who_names_no_queue_hears_of_all(directory: str) -> None:
    with SocketNotification(directory=directory) as policy:
        assert is_heard(policy)
        SocketNotification(directory=directory).notify(told("whatever"))
        assert policy.wait(0)


def test_a_child_hears_by_itself_and_leaves_its_parent_alone(directory: str) -> None:
    ready, tell_ready = os.pipe()
    with SocketNotification("jobs", directory=directory) as policy:
        assert is_heard(policy)

        def hear() -> None:
            assert not policy.live
            assert policy.catch_up == 2.0 and policy.live  # who rests listens again
            os.write(tell_ready, b"!")
            assert policy.wait(PATIENCE)
            policy.close()

        child = forked(hear)
        assert os.read(ready, 1)
        policy.notify(told("jobs"))
        assert exit_code_of(child) == 0
        policy.clear()
        assert exit_code_of(forked(lambda: policy.notify(told("jobs")))) == 0
        assert policy.wait(PATIENCE)
        assert len(os.listdir(f"{directory}/p")) == 1
    os.close(ready)
    os.close(tell_ready)


def test_a_listener_whose_directory_was_tidied_up_is_found_again(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ear, "_MEND_EVERY", 0.02)
    with SocketNotification("jobs", directory=directory) as policy:
        assert is_heard(policy)
        (before,) = os.listdir(f"{directory}/p")
        shutil.rmtree(f"{directory}/p")
        shutil.rmtree(f"{directory}/sockets")
        until(lambda: len(files_below(directory)) == 3)
        assert os.listdir(f"{directory}/p") != [before]
        assert exit_code_of(forked(lambda: SocketNotification(directory=directory).notify(told("jobs")))) == 0
        assert policy.wait(PATIENCE)


def test_a_producer_finds_listeners_at_each_place_of_its_user(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that a timer has started has no session; a program of the session puts."""
    monkeypatch.setattr(tempfile, "tempdir", directory)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(places, "_is_ours", lambda path: not path.startswith("/run"))
    with SocketNotification("jobs") as policy:
        assert policy.directory.startswith(directory)
        assert is_heard(policy)
        session = os.path.join(directory, "session")
        os.mkdir(session, 0o700)
        monkeypatch.setenv("XDG_RUNTIME_DIR", session)
        producer = SocketNotification()
        assert producer.directory == os.path.join(session, "localqueue")
        assert exit_code_of(forked(lambda: producer.notify(told("jobs")))) == 0
        assert policy.wait(PATIENCE)
        assert os.listdir(session) == []  # who only looks makes nothing


def test_a_directory_that_is_not_safe_is_refused(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chmod(directory, 0o777)
    with pytest.raises(PermissionError, match="others may write into it"):
        SocketNotification(directory=directory)
    os.chmod(directory, 0o700)
    policy = SocketNotification("jobs", directory=directory)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to user"):
        policy.wait(0)


def test_a_directory_with_too_long_a_name_is_refused(directory: str) -> None:
    with pytest.raises(ValueError, match=r"too long for a socket .* give a shorter one"):
        SocketNotification(directory=f"{directory}/{'x' * 90}").attach(print)
    with pytest.raises(ValueError, match="queue must be the name of a queue"):
        SocketNotification("")


def test_a_waiter_rests_long_yet_takes_a_delayed_message_on_time(directory: str) -> None:
    """The delay of a message is told, and what the store says of its next timer ends a rest."""
    with MemoryQueueStore() as store, SocketNotification(directory=directory, catch_up=PATIENCE) as policy:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
        quiet: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        with queue.work_wait() as work:
            assert work.wait(MOMENT) is False
            for producer in (queue, quiet):
                producer.put("x", delay=0.1)
                while quiet.empty():
                    assert work.wait(PATIENCE)
                assert quiet.get_nowait() == "x"
