"""Events by server-sent events and by WebSocket: a real server, and real clients of other people."""

from __future__ import annotations

import asyncio
import json
import queue as stdlib_queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage, WebSocketNotification
from localqueue.contracts import NotificationContract, WaitableNotificationContract
from localqueue.contracts.steps import PATIENCE
from localqueue.notifications import SSEListener, SSENotification, sse_listener
from tests.asgi_server import served
from tests.unit.worker_steps import eventually

DELAY = 0.2


class TestSSENotification(NotificationContract):
    @pytest.fixture
    def policy(self) -> Iterator[SSENotification]:
        with SSENotification() as policy:
            yield policy


class TestWebSocketEndpoint(NotificationContract):
    @pytest.fixture
    def policy(self) -> Iterator[WebSocketNotification]:
        policy = WebSocketNotification.serve()
        yield policy
        policy.close()


@pytest.fixture(scope="module")
def quiet_feed() -> Iterator[str]:
    with SSENotification() as feed, served(feed.app) as url:
        yield url
        feed.close()


class TestSSEListener(WaitableNotificationContract):
    @pytest.fixture
    def policy(self, quiet_feed: str) -> Iterator[SSEListener]:
        with SSEListener(quiet_feed, "jobs") as policy:
            policy.wait(0)  # from when it begins to listen it has everybody look once
            policy.clear()
            yield policy


@pytest.fixture(autouse=True)
def patient_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins to listen waits for the server, however slow that is."""
    monkeypatch.setattr(sse_listener, "_PATIENCE", PATIENCE)


@pytest.fixture
def feed() -> Iterator[SSENotification]:
    with SSENotification() as feed:
        yield feed


@pytest.fixture
def url(feed: SSENotification) -> Iterator[str]:
    with served(feed.app) as url:
        yield url
        feed.close()  # a stream that nobody ends would hold up the server


@pytest.fixture
def queue(feed: SSENotification) -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store, notification_policy=feed)


class Reader:
    """Reads a stream of events with httpx, block by block."""

    def __init__(self, response: httpx.Response) -> None:
        self.headers = response.headers
        self._lines = response.iter_lines()
        self.first = self.block()

    def block(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self._lines:
            if line == "":
                return found
            name, _, value = line.partition(": ")
            found[name] = value
        raise EOFError

    def event(self) -> dict[str, Any]:
        block = self.block()
        return {"kind": block["event"], **json.loads(block["data"]), "id": block["id"]}


@contextmanager
def reading(url: str, **options: Any) -> Iterator[Reader]:
    with httpx.stream("GET", url, timeout=PATIENCE, **options) as response:
        assert response.status_code == 200
        yield Reader(response)


def heard(client: ClientConnection) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(client.recv(timeout=PATIENCE))
    return content


@contextmanager
def socket_to(url: str, **options: Any) -> Iterator[ClientConnection]:
    with connect(url.replace("http:", "ws:"), open_timeout=PATIENCE, close_timeout=PATIENCE, **options) as client:
        yield client


def test_each_message_of_a_batch_is_told_of_without_what_is_in_it(url: str, queue: PersistentQueue[Any]) -> None:
    with reading(url, params={"queue": "jobs"}) as reader:
        assert reader.headers["content-type"].startswith("text/event-stream")
        messages = queue.put_many(["secret", "äöü" * 10_000])
        told = [reader.event(), reader.event()]
    assert [event["message_id"] for event in told] == [message.id for message in messages]
    assert all(event["kind"] == "available" and event["queue"] == "jobs" for event in told)
    assert set(told[0]) == {"kind", "id", "queue", "message_id", "event_id", "at"}
    assert told[0]["event_id"] == told[0]["id"] and told[0]["at"] == messages[0].available_at


def test_a_client_hears_of_the_queues_it_named_and_without_a_name_of_all(url: str, feed: SSENotification) -> None:
    with reading(f"{url}/any/path?queue=a&queue=b%20%C3%A4") as some, reading(url) as all_of_them:
        for name in ("other", "a", "b ä"):
            feed.notify(QueueMessage("1", None, name))
        assert [some.event()["queue"] for _ in range(2)] == ["a", "b ä"]
        assert [all_of_them.event()["queue"] for _ in range(3)] == ["other", "a", "b ä"]


def test_a_message_is_told_of_when_it_can_be_leased_and_not_before(url: str, queue: PersistentQueue[Any]) -> None:
    with reading(url) as reader:
        began = time.monotonic()
        later = queue.put("later", delay=DELAY)
        queue.put("waits", after=[later])
        now = queue.put("now")
        in_time = time.monotonic() - began < DELAY
        told = {reader.event()["message_id"]: time.monotonic() - began for _ in range(2)}
        assert list(told) == [now.id, later.id] or not in_time
        assert set(told) == {now.id, later.id} and told[later.id] > 0.9 * DELAY


@pytest.mark.parametrize("way", ["header", "query"])
def test_a_client_that_comes_back_misses_nothing(way: str, url: str, queue: PersistentQueue[Any]) -> None:
    with reading(url) as reader:
        began = reader.first["id"]
    missed = queue.put_many(range(300))
    options: dict[str, Any] = {"headers": {"Last-Event-ID": began}} if way == "header" else {}
    with reading(url if way == "header" else f"{url}?last_event_id={began}", **options) as reader:
        assert reader.first["id"] == began
        late = queue.put("while it reads")
        seen = [reader.event()["message_id"] for _ in range(301)]
    assert seen == [message.id for message in [*missed, late]]


def test_a_client_that_comes_back_too_late_is_told_to_look_everywhere(url: str, queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(1001))
    with reading(url, headers={"Last-Event-ID": "0011223344556677-5"}) as reader:
        event = reader.event()
        assert (event["kind"], event["queue"], event["message_id"]) == ("reset", None, None)
    with reading(url, headers={"Last-Event-ID": event["id"]}) as reader:
        message = queue.put("x")
        assert reader.event()["message_id"] == message.id


def test_a_client_that_does_not_read_holds_up_nobody_and_is_told_to_look_again() -> None:
    with SSENotification(buffer=10) as feed, served(feed.app) as url:
        address = httpx.URL(url)
        with socket.socket() as stuck, reading(url) as reader:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect((address.host, address.port))
            stuck.sendall(b"GET /?queue=jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            stuck.settimeout(PATIENCE)
            first = stuck.recv(4096)
            assert first.startswith(b"HTTP/1.1 200")
            while not (feed.listener_count == 2 and feed.coalesced > 2000):
                feed.notify(QueueMessage("x" * 1000, None, "jobs"))
            feed.notify(QueueMessage("the end", None, "mail"))
            while reader.event()["queue"] != "mail":
                pass  # the other client has got to the end, and this one has not read a byte
            feed.notify(QueueMessage("y", None, "jobs"))
            last = reader.event()["event_id"]
            feed.close()
            rest = b"".join(iter(lambda: stuck.recv(65536), b""))
        blocks = [
            json.loads(line[6:]) for line in rest.split(b"\n") if line.startswith(b"data: {") and line[-1:] == b"}"
        ]
        assert any(block["message_id"] is None and block["queue"] == "jobs" for block in blocks)
        assert blocks[-1]["event_id"] == last


def test_a_client_that_is_gone_is_forgotten_and_a_heartbeat_finds_out() -> None:
    with SSENotification(heartbeat=0.05) as feed, served(feed.app) as url:
        with reading(url) as reader:
            assert reader.block() == {":": ""}
            assert feed.listener_count == 1
        for _ in range(int(PATIENCE * 100)):
            if feed.listener_count == 0:
                break
            threading.Event().wait(0.01)
        assert feed.listener_count == 0
        feed.close()


def _may(scope: Any) -> bool:
    return (b"authorization", b"Bearer good") in scope["headers"] and scope["localqueue.queues"] == ("jobs",)


async def _may_in_the_end(scope: Any) -> bool:
    await asyncio.sleep(0)
    return _may(scope)


@pytest.mark.parametrize("authorize", [_may, _may_in_the_end])
def test_only_who_is_allowed_listens(authorize: Any) -> None:
    with SSENotification(authorize=authorize) as feed, served(feed.app) as url:
        good = {"Authorization": "Bearer good"}
        assert httpx.get(f"{url}?queue=jobs", timeout=PATIENCE).status_code == 403
        assert httpx.get(f"{url}?queue=mail", headers=good, timeout=PATIENCE).status_code == 403
        with reading(f"{url}?queue=jobs", headers=good):
            pass
        with pytest.raises(InvalidStatus) as refused, socket_to(f"{url}?queue=jobs"):
            pass
        assert refused.value.response.status_code == 403
        with socket_to(f"{url}?queue=jobs", additional_headers=good) as client:
            assert heard(client)["event"] == "ready"
            client.send(json.dumps({"queues": ["mail"]}))
            with pytest.raises(ConnectionClosed):
                client.recv(timeout=PATIENCE)
            assert client.close_code == 1008
        feed.close()


def test_what_is_not_a_request_for_events_is_refused(url: str) -> None:
    assert httpx.post(url, timeout=PATIENCE).status_code == 405
    assert httpx.get(f"{url}?queue=%FF", timeout=PATIENCE).status_code == 400


def test_a_websocket_client_hears_and_resumes_by_the_address_or_by_a_message(
    url: str, queue: PersistentQueue[Any]
) -> None:
    with socket_to(f"{url}?queue=jobs") as client:
        began = heard(client)
        assert began["event"] == "ready"
        message = queue.put("x")
        event = heard(client)
        assert (event["event"], event["queue"], event["message_id"]) == ("available", "jobs", message.id)
    missed = queue.put_many(range(150))
    with socket_to(f"{url}?last_event_id={event['event_id']}") as client:
        assert heard(client)["event_id"] == event["event_id"]
        assert [heard(client)["message_id"] for _ in range(150)] == [one.id for one in missed]
        client.send(json.dumps({"queues": ["jobs"], "last_event_id": began["event_id"]}))
        assert heard(client) == {"event": "ready", "event_id": began["event_id"]}
        assert [heard(client)["message_id"] for _ in range(151)] == [message.id, *(one.id for one in missed)]
        client.send(json.dumps({"queues": ["jobs"], "last_event_id": "unknown"}))
        assert [heard(client)["event"] for _ in range(2)] == ["ready", "reset"]


@pytest.mark.parametrize(
    ("said", "code"),
    [("{", 1007), ("[]", 1007), ('{"queues": "jobs"}', 1007), ('{"last_event_id": 5}', 1007), ("ä" * 40_000, 1009)],
)
def test_a_websocket_client_that_says_something_odd_is_told_why(said: str, code: int, url: str) -> None:
    with socket_to(url) as client:
        heard(client)
        client.send(said)
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=PATIENCE)
        assert client.close_code == code and client.close_reason


def test_one_feed_serves_both_kinds_of_clients_under_any_path_of_an_application() -> None:
    policy = WebSocketNotification.serve()
    app = Starlette(routes=[Route("/events", policy.app), WebSocketRoute("/socket", policy.app)])
    with served(app) as url, reading(f"{url}/events") as reader, socket_to(f"{url}/socket") as client:
        heard(client)
        assert policy.listener_count == policy.as_dict()["listener_count"] == 2
        policy.notify(QueueMessage("1", None, "jobs"))
        assert reader.event()["message_id"] == heard(client)["message_id"] == "1"
        policy.close()
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=PATIENCE)
        with pytest.raises(EOFError):
            reader.block()


def test_a_listener_hears_of_every_queue_that_somebody_waits_for(url: str, feed: SSENotification) -> None:
    rung: stdlib_queue.SimpleQueue[str] = stdlib_queue.SimpleQueue()
    with SSEListener(url) as listener:
        names = [f"queue {number}/ä" for number in range(205)]  # more than an address would hold
        for name in names:
            listener.attach(partial(rung.put, name), name)
        while not rung.empty():
            rung.get()
        for name in (names[0], names[-1], "nobody's"):
            feed.notify(QueueMessage("1", None, name))
        feed.notify(None)
        told = [rung.get(timeout=PATIENCE) for _ in range(2 + len(names))]
        assert told[:2] == [names[0], names[-1]] and sorted(told[2:]) == sorted(names)


def test_a_listener_hears_again_when_the_server_comes_back_and_has_missed_nothing(feed: SSENotification) -> None:
    told: list[int] = []
    rung = threading.Semaphore(0)

    def ring() -> None:
        told.append(1)
        rung.release()

    with served(feed.app) as url:
        port = httpx.URL(url).port
        listener = SSEListener(f"http://user:secret@127.0.0.1:{port}/?x=1", "jobs")
        assert "secret" not in repr(listener) and "secret" not in json.dumps(listener.as_dict())
        listener.attach(ring)
        assert listener.live and rung.acquire(timeout=PATIENCE)
        feed.notify(QueueMessage("1", None, "mail"))
        feed.notify(QueueMessage("2", None, "jobs"))
        assert rung.acquire(timeout=PATIENCE)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    eventually(lambda: not listener.live)
    assert listener.catch_up <= 0.2
    feed.notify(QueueMessage("3", None, "jobs"))
    while rung.acquire(blocking=False):
        pass
    with served(feed.app, port=port) as again:
        assert again == url
        for _ in range(2):  # that it hears again, and what it missed
            assert rung.acquire(timeout=PATIENCE)
        assert listener.live
        listener.close()
        assert "localqueue-sse" not in {thread.name for thread in threading.enumerate()}
        feed.close()
