"""What a notification promises that wakes other processes: the right ones, in time, and without waiting for any."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.peer import MakePolicy, Peer, handled, is_heard
from localqueue.contracts.steps import MOMENT, PATIENCE, Background
from localqueue.message import QueueMessage
from localqueue.queue import PersistentQueue
from localqueue.stores.sqlite import SQLiteQueueStore


class _Lossy:
    """Passes on every other notification."""

    notifies = notifies_on_put = True

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self.passed: list[bool] = []

    def notify(self, message: Any) -> None:
        self.passed.append(len(self.passed) % 2 == 1)
        if self.passed[-1]:
            self._policy.notify(message)

    def as_dict(self) -> dict[str, Any]:
        return dict(self._policy.as_dict())


@pytest.mark.multiprocess
class CrossProcessNotificationContract:
    """For a `CrossProcessNotification`. Subclass it as `Test...` and provide the fixture `make_policy`.

    `make_policy(queue=...)` makes a policy that reaches all others it made; it goes to other processes, so it must be
    something that can be pickled, such as a `functools.partial` of the class. `carries_delay` says whether a delayed
    message is told of when it falls due.
    """

    carries_delay = True

    @pytest.fixture
    def make_policy(self) -> MakePolicy:
        raise NotImplementedError("a subclass of CrossProcessNotificationContract provides the fixture `make_policy`")

    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        return str(tmp_path / "queues.sqlite")

    @pytest.fixture
    def policy(self, make_policy: MakePolicy) -> Iterator[Any]:
        with make_policy(queue="jobs") as policy:
            yield policy

    @pytest.fixture
    def queue(self, path: str, policy: Any) -> Iterator[PersistentQueue[Any]]:
        with SQLiteQueueStore(path) as store:
            yield PersistentQueue("jobs", store=store, notification_policy=policy)

    @pytest.fixture
    def peers(self, make_policy: MakePolicy, path: str) -> Iterator[Callable[..., Peer]]:
        started: list[Peer] = []

        def start(queue: str = "jobs") -> Peer:
            started.append(Peer(make_policy, path, queue))
            return started[-1]

        yield start
        for peer in started:
            peer.close()

    def test_it_says_what_it_is_and_how_far_it_reaches(self, policy: Any) -> None:
        printed = json.loads(json.dumps(policy.as_dict()))
        assert printed["type"] == policy.kind and printed["scope"] in ("host", "network")
        assert printed["notifies"] is printed["notifies_on_put"] is True
        assert printed["listener_count"] == 0
        policy.attach(_nothing)
        assert policy.as_dict()["listener_count"] == 1
        policy.detach(_nothing)
        assert policy.as_dict()["listener_count"] == 0

    def test_a_producer_with_no_listeners_starts_no_thread(self, policy: Any) -> None:
        before = set(threading.enumerate())
        for _ in range(100):
            policy.notify(_message())
        assert set(threading.enumerate()) <= before

    def test_a_put_wakes_the_listeners_of_its_queue_in_other_processes(
        self, policy: Any, peers: Callable[..., Peer], queue: PersistentQueue[Any]
    ) -> None:
        assert is_heard(policy)
        peer, stranger = peers(), peers("mail")
        assert peer.ask("listen") and stranger.ask("listen")

        peer.ask("put", "from there")
        assert policy.wait(PATIENCE)
        policy.clear()
        peer.ask("clear")

        queue.put("from here")
        assert peer.ask("wait", PATIENCE)

        stranger.ask("clear")
        stranger.ask("put", "to another queue")
        assert stranger.ask("wait", PATIENCE)
        policy.clear()
        stranger.ask("put", "and another")
        assert policy.wait(MOMENT) is False

    def test_each_message_of_a_batch_is_told_of(
        self, policy: Any, peers: Callable[..., Peer], queue: PersistentQueue[Any]
    ) -> None:
        """The listener takes one batch after the other while they come, and rests on nothing but the policy."""
        peer = peers()
        assert peer.ask("listen")
        peer.start("take", 300)
        for start in (0, 100, 200):
            queue.put_many(range(start, start + 100))
        assert sorted(peer.answer()) == list(range(300))

    def test_a_message_that_can_not_be_leased_yet_wakes_nobody(self, policy: Any, peers: Callable[..., Peer]) -> None:
        assert is_heard(policy)
        peer = peers()
        first = peer.ask("put", "later", 60.0)
        peer.ask("put_after", "behind it", first)
        assert policy.wait(MOMENT) is False

    def test_a_message_wakes_when_its_delay_is_over(self, policy: Any, peers: Callable[..., Peer]) -> None:
        assert is_heard(policy)
        peer = peers()
        peer.ask("put", "soon", 0.3)
        assert policy.wait(PATIENCE if self.carries_delay else MOMENT) is self.carries_delay

    def test_a_listener_that_was_killed_holds_nobody_up(
        self, policy: Any, peers: Callable[..., Peer], queue: PersistentQueue[Any]
    ) -> None:
        dead, alive = peers(), peers()
        assert dead.ask("listen") and alive.ask("listen")
        dead.signal(signal.SIGKILL)
        dead.process.join(PATIENCE)
        queue.put("x")
        assert alive.ask("wait", PATIENCE)

    def test_a_listener_that_hangs_holds_nobody_up_and_is_told_in_the_end(
        self, policy: Any, peers: Callable[..., Peer], queue: PersistentQueue[Any]
    ) -> None:
        stuck, alive = peers(), peers()
        assert stuck.ask("listen") and alive.ask("listen")
        with _stopped(stuck):
            for _ in range(500):
                policy.notify(_message())
            assert alive.ask("wait", PATIENCE)
        assert stuck.ask("wait", PATIENCE)

    def test_a_worker_in_another_process_handles_what_is_put_here(
        self, peers: Callable[..., Peer], queue: PersistentQueue[Any]
    ) -> None:
        peer = peers()
        assert peer.ask("listen")
        peer.start("work", 20)
        for item in range(20):
            queue.put(item)
        assert peer.answer() == list(range(20))

    def test_every_message_is_handled_once_though_every_other_notification_is_dropped(
        self, policy: Any, make_policy: MakePolicy, path: str, queue: PersistentQueue[Any]
    ) -> None:
        assert is_heard(policy)
        with SQLiteQueueStore(path) as store, make_policy(queue="jobs") as sender:
            lossy = _Lossy(sender)
            producer: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=lossy)
            threads = Background()
            threads.start(lambda: [producer.put(item) for item in range(11)])
            assert handled(queue, 11) == list(range(11))
            threads.join()
        assert lossy.passed.count(False) == 6 and lossy.passed[-1] is False
        assert queue.stats().total == 0


def _nothing() -> None:
    return None


def _message() -> QueueMessage[Any]:
    return QueueMessage("a message", None, "jobs")


@contextmanager
def _stopped(peer: Peer) -> Iterator[None]:
    peer.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        peer.signal(signal.SIGCONT)
