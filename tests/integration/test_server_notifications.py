"""Wake-ups over Redis, PostgreSQL and MongoDB, for queues whose messages are elsewhere."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localqueue import PersistentQueue, Worker
from localqueue.contracts import WaitableNotificationContract
from localqueue.contracts.peer import is_heard
from localqueue.contracts.process_notifications import CrossProcessNotificationContract
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import NotificationFailed
from localqueue.message import QueueMessage
from localqueue.notifications import MongoDBNotification, PostgresNotification, RedisNotification, server
from localqueue.notifications.server import LONGEST
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.servers import Server, free_port, shared
from tests.stores import SERVERS

CLASSES: dict[str, Any] = {
    "postgres": PostgresNotification,
    "redis": RedisNotification,
    "mongodb": MongoDBNotification,
}


@pytest.fixture(params=list(CLASSES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_policy(kind: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Policies that reach each other and no other test. Who begins to listen waits for the server, however slow that
    is: one who gave up would be told to look at all queues later on, which no test has said."""
    monkeypatch.setattr(server, "_BEGINS_WITHIN", PATIENCE)
    return partial(CLASSES[kind], shared(SERVERS[kind]).url, channel=f"test-{secrets.token_hex(8)}")


class TestAcrossProcesses(CrossProcessNotificationContract):
    @pytest.fixture
    def make_policy(self, make_policy: Callable[..., Any]) -> Callable[..., Any]:
        return make_policy

    def test_a_producer_with_no_listeners_starts_no_thread(self, policy: Any) -> None:
        """Apart from those of a driver, which watch the server."""
        policy.notify(None)
        super().test_a_producer_with_no_listeners_starts_no_thread(policy)


class TestInOneProcess(WaitableNotificationContract):
    @pytest.fixture
    def policy(self, make_policy: Callable[..., Any]) -> Iterator[Any]:
        with make_policy() as policy:
            yield policy


class Heard(NamedTuple):
    """A policy that listens, and what it was told."""

    policy: Any
    queues: list[str | None]
    event: threading.Event

    def wait(self) -> list[str | None]:
        """What was told since the last call, once there was something."""
        assert self.event.wait(PATIENCE), "nothing was heard"
        self.event.clear()
        told, self.queues[:] = list(self.queues), []
        return told


@pytest.fixture
def listening(make_policy: Callable[..., Any]) -> Iterator[Heard]:
    """Another policy on the same channel, as in another process."""
    with make_policy() as policy:
        heard = Heard(policy, [], threading.Event())
        tell = policy.tell

        def told(queue: str | None, delay: float = 0.0) -> None:
            heard.queues.append(queue)
            tell(queue, delay)

        policy.tell = told
        policy.attach(heard.event.set)
        assert policy.live
        yield heard


def message(queue: str) -> QueueMessage[Any]:
    return QueueMessage("an id", None, queue)


def test_a_batch_is_said_once_for_each_queue(
    make_policy: Callable[..., Any], listening: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A batch of a hundred is one round trip, and what is not stored or can not be leased is not told of."""
    said: list[list[str]] = []
    with SQLiteQueueStore(tmp_path / "queue.sqlite3") as store, make_policy() as policy:
        say = policy.say
        monkeypatch.setattr(policy, "say", lambda sender, words: (said.append(words[1:]), say(sender, words)))
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
        stored = queue.put_many(range(100))
        assert said == [["jobs"]]
        assert set(listening.wait()) == {"jobs"}
        queue.put_many(range(2), after=[stored[0]])
        assert said == [["jobs"]]
        policy.notify_many([message("a"), message("b"), message("a")])
        assert said[1:] == [["a", "b"]]
        assert listening.wait()[:1] == ["a"]


@pytest.mark.parametrize("name", ["a b,c/*@+1.000%", "\N{SNOWMAN}" * 255, "\N{GRINNING FACE}" * 660, "+5.000", "@x"])
def test_the_name_of_a_queue_arrives_as_it_is(make_policy: Callable[..., Any], listening: Heard, name: str) -> None:
    with make_policy() as policy:
        policy.notify(message(name))
    assert listening.wait() == [name]


def test_what_would_be_too_long_is_said_as_look_at_all(make_policy: Callable[..., Any], listening: Heard) -> None:
    """The limit is one of bytes: a few thousand letters of a few bytes each are beyond it."""
    with make_policy() as policy:
        for letter in ("x", "\N{LATIN SMALL LETTER U WITH DIAERESIS}", "\N{GRINNING FACE}"):
            for length in (LONGEST // 12, LONGEST // 4, LONGEST - 30, LONGEST, 20_000):
                name = letter * length
                assert len(",".join(policy.words_for((name,), 0.0)).encode()) <= LONGEST
                policy.notify(message(name))
                assert listening.wait() in ([name], [None])
        policy.notify(message("x" * 20_000))
        assert listening.wait() == [None]
        policy.notify_many([message(f"queue-{n}") for n in range(2000)])
        assert listening.wait() == [None]


CHANNELS = ("jobs", "Jobs", "x" * 63, "x" * 64, "x" * 64 + "y", 'a "quoted" one; --', "\N{SNOWMAN}" * 40, "$a.b")


def test_sender_and_listener_agree_on_any_channel_and_channels_are_apart(kind: str) -> None:
    url, run, heard = shared(SERVERS[kind]).url, secrets.token_hex(8), list[str]()
    with ExitStack() as stack:

        def on(name: str) -> Any:
            return stack.enter_context(CLASSES[kind](url, channel=name + run))

        listeners = {name: on(name) for name in CHANNELS}
        for name, listener in listeners.items():
            # Each that begins has the others look at all queues, which is None.
            listener.tell = lambda queue, delay=0.0, name=name: heard.append(name) if queue else None
            listener.attach(_nothing)
        assert _until(lambda: all(listener.live for listener in listeners.values()))
        for name in CHANNELS:
            on(name).notify(message("jobs"))
        assert _until(lambda: len(heard) >= len(CHANNELS))
        assert sorted(heard) == sorted(CHANNELS)


def test_another_program_can_wake_with_the_name_of_a_queue(make_policy: Callable[..., Any], listening: Heard) -> None:
    """What was not said by an adapter is understood too, whatever it is."""
    with make_policy() as policy:
        for words, told in ((["jobs"], ["jobs"]), (["+1e9"], ["+1e9"]), (["+0.000", "a", "b"], ["a", "b"])):
            policy.say(policy._opened(), words)
            while len(listening.queues) < len(told):
                listening.event.wait(0.01)
            assert listening.wait() == told


def test_two_policies_of_one_process_hear_each_other_and_not_themselves(make_policy: Callable[..., Any]) -> None:
    with make_policy() as one, make_policy() as two:
        assert is_heard(one) and is_heard(two)
        heard: list[str | None] = []
        one.tell, tell = lambda queue, delay=0.0: (heard.append(queue), tell(queue, delay)), one.tell
        one.notify(message("mine"))
        assert two.wait(PATIENCE)
        two.notify(message("theirs"))
        deadline = time.monotonic() + PATIENCE
        while "theirs" not in heard and time.monotonic() < deadline:
            one.wait(0.01)
        assert heard == ["mine", "theirs"]


def test_a_child_of_a_fork_has_connections_of_its_own(make_policy: Callable[..., Any]) -> None:
    """Parent and child listen and notify after it, and each hears the other."""
    with make_policy() as policy:
        assert is_heard(policy)
        policy.notify(None)
        policy.clear()
        read, write = os.pipe()
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if is_heard(policy):
                    os.write(write, b"x")
                    status = 0 if policy.wait(PATIENCE) else 2
                    os.read(ready, 1)
                    policy.notify(message("from the child"))
                    policy.close()
            finally:
                os._exit(status)
        os.close(write)
        assert os.read(read, 1) == b"x"
        os.close(read)
        with make_policy() as other:
            assert is_heard(other)
            policy.notify(message("from the parent"))
            policy.clear()
            os.write(go, b"x")
            for end in (ready, go):
                os.close(end)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert policy.wait(PATIENCE)
            other.clear()
            policy.notify(message("still there"))
            assert other.wait(PATIENCE)


@pytest.mark.server
def test_listening_makes_nothing_and_only_notify_makes_the_collection() -> None:
    import pymongo

    mongodb = shared(SERVERS["mongodb"])
    name = f"test_{secrets.token_hex(8)}"
    url = mongodb.url.replace("/?", f"/{name}?")
    with (
        pymongo.MongoClient(mongodb.url) as client,
        MongoDBNotification(url, collection="wakes") as listener,
        MongoDBNotification(url, collection="wakes") as sender,
    ):
        assert is_heard(listener)
        assert name not in client.list_database_names()
        sender.notify(message("jobs"))
        assert listener.wait(PATIENCE)
        assert client[name].list_collection_names() == ["wakes"]
        for n in range(100):
            sender.notify(message(f"queue-{n}"))
        assert client[name].wakes.count_documents({}) <= 16

        client.drop_database(name)
        listener.clear()
        assert _until(lambda: sender.notify(message("jobs")) or listener.wait(0.1))
        client.drop_database(name)


@pytest.mark.server
@pytest.mark.slow
def test_a_server_that_stands_alone_says_why_nobody_is_woken(caplog: pytest.LogCaptureFixture) -> None:
    alone = SERVERS["mongodb"](replica_set=False)  # type: ignore[call-arg]
    alone.start()
    try:
        with MongoDBNotification(alone.url) as policy:
            policy.notify(message("jobs"))
            policy.attach(_nothing)
            assert not policy.live and policy.catch_up <= 0.2
        assert "need a replica set" in caplog.text
    finally:
        alone.stop()


@contextmanager
def running(worker: Worker) -> Iterator[None]:
    threads = Background()
    threads.start(partial(worker.run, signals=False))
    try:
        yield
    finally:
        worker.stop()
        threads.join()


def _nothing() -> None:
    return None


def _until(happens: Callable[[], Any]) -> bool:
    deadline = time.monotonic() + 3 * PATIENCE
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)  # between two looks
    return True


@pytest.fixture
def own_server(kind: str) -> Iterator[Server]:
    """One that may be killed."""
    own = SERVERS[kind]()
    own.start()
    yield own
    own.stop()


def test_consumers_get_every_message_while_the_server_is_away_and_are_woken_when_it_is_back(
    kind: str, own_server: Server, tmp_path: Path
) -> None:
    make = partial(CLASSES[kind], own_server.url)
    handled: list[int] = []
    with (
        SQLiteQueueStore(tmp_path / "queue.sqlite3") as store,
        make(timeout=1.0) as hears,
        make(timeout=PATIENCE) as tells,
    ):
        consumer: PersistentQueue[int] = PersistentQueue("jobs", store=store, notification_policy=hears)
        producer: PersistentQueue[int] = PersistentQueue("jobs", store=store, notification_policy=tells)
        with running(Worker(consumer, handled.append)):
            producer.put(0)
            assert _until(lambda: handled == [0])
            assert _until(lambda: hears.live)

            own_server.kill()
            with pytest.MonkeyPatch.context() as hasty:
                if kind == "mongodb":  # whose driver waits for another primary
                    hasty.setattr(tells._opened(), "timeout", 1.0)
                with pytest.raises(NotificationFailed, match="What was put is stored") as failure:
                    producer.put(1)
                with pytest.raises(NotificationFailed):
                    producer.put_many([2, 3])
            assert own_server.url.partition("?")[0].rstrip("/") in str(failure.value)
            assert _until(lambda: sorted(handled) == [0, 1, 2, 3])
            assert _until(lambda: not hears.live) and hears.catch_up <= 0.2

            own_server.start()
            assert _until(lambda: hears.live)
            woken = threading.Event()
            hears.attach(woken.set, "jobs")
            producer.put(4)
            assert woken.wait(PATIENCE)
            assert _until(lambda: sorted(handled) == [0, 1, 2, 3, 4])

            own_server.kill()
            own_server.start()
            producer.put(5)  # its connection was lost meanwhile, and is made again
            assert _until(lambda: sorted(handled) == [0, 1, 2, 3, 4, 5])
        assert producer.stats().total == 0


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "mongodb"])
def test_no_password_is_shown(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    kind = {"postgresql": "postgres"}.get(scheme, scheme)
    with CLASSES[kind](f"{scheme}://ann:sesame-42@127.0.0.1:{free_port()}/7", timeout=0.2) as policy:
        with pytest.raises(NotificationFailed) as failure:
            policy.notify(message("jobs"))
        policy.attach(_nothing)
        texts = (repr(policy), str(policy.as_dict()), str(failure.value), repr(failure.value), caplog.text)
    assert all("ann@127.0.0.1" in text for text in texts[:4])
    assert not any("sesame" in text for text in texts)


def test_what_can_not_be_used_is_refused_with_the_way_out(kind: str) -> None:
    make = CLASSES[kind]
    with pytest.raises(ValueError, match=r"takes a \w+:// address, got 'http://host/'"):
        make("http://host/")
    with pytest.raises(TypeError, match="url must be a text"):
        make(5)
    url = f"{make.schemes[0]}://host/db"
    for channel in ("", 5):
        with pytest.raises(ValueError, match=f"channel must be a text that is not empty, got {channel!r}"):
            make(url, channel=channel)
    for timeout in (0, -1, float("inf"), True, "5"):
        with pytest.raises(ValueError, match="timeout must be a positive number of seconds"):
            make(url, timeout=timeout)
    assert repr(make(url, "jobs")) == f"{make.__name__}('{url}', 'jobs')"


@pytest.mark.server
def test_behind_a_pooler_without_an_address_to_listen_at_one_looks_often() -> None:
    with PostgresNotification(shared(SERVERS["postgres"]).url, pooled=True) as policy:
        policy.attach(_nothing)
        assert not policy.live and policy.catch_up <= 0.2
        policy.notify(message("jobs"))
