"""Webhooks: real requests to real servers, those that fail, hang, redirect and lie included."""

from __future__ import annotations

import datetime
import json
import logging
import os
import queue as stdlib_queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.routing import Mount

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage
from localqueue.contracts import CrossProcessNotificationContract, NotificationContract, WaitableNotificationContract
from localqueue.contracts.steps import PATIENCE
from localqueue.notifications import SSEListener, SSENotification, WebhookNotification, WebhookReceiver
from localqueue.notifications.dialer import Dialer
from localqueue.notifications.endpoint import Endpoint
from localqueue.notifications.signature import HEADER, sign, verify
from tests.asgi_server import served

SECRET = "a secret"
DELAY = 0.2
MESSAGE: QueueMessage[Any] = QueueMessage("the id", "the content", "jobs")


class Target:
    """A web server that answers as it was told, one answer a request and then 200, and keeps what it was sent."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: stdlib_queue.SimpleQueue[tuple[int, dict[str, str]]] = stdlib_queue.SimpleQueue()
        self.requests: stdlib_queue.Queue[tuple[str, Any, bytes]] = stdlib_queue.Queue()
        self.gate = threading.Event()
        self.gate.set()
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                target.requests.put((self.path, self.headers, body))
                target.gate.wait(PATIENCE)
                try:
                    status, headers = target.answers.get_nowait()
                except stdlib_queue.Empty:
                    status, headers = 200, {}
                if status == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._server.handle_error = lambda request, client: None  # type: ignore[method-assign]
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answer(self, *statuses: int, **headers: str) -> None:
        for status in statuses:
            self.answers.put((status, {name.replace("_", "-"): value for name, value in headers.items()}))

    def next(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.requests.get(timeout=PATIENCE)[2])
        return content

    def rest(self) -> list[dict[str, Any]]:
        found = []
        while not self.requests.empty():
            found.append(self.next())
        return found

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localqueue.notifications.courier._FIRST_PAUSE", 0.01)


@contextmanager
def hook(*urls: str, **options: Any) -> Iterator[WebhookNotification]:
    options = {"allow_private": True, "secret": SECRET, "timeout": PATIENCE, **options}
    with WebhookNotification(urls, **options) as webhook:
        yield webhook


class TestWebhookNotification(NotificationContract):
    @pytest.fixture
    def policy(self, target: Target) -> Iterator[WebhookNotification]:
        with hook(target.url) as policy:
            yield policy


class TestWebhookReceiver(WaitableNotificationContract):
    @pytest.fixture
    def policy(self) -> Iterator[WebhookReceiver]:
        with WebhookReceiver("jobs", secret=SECRET) as policy:
            yield policy


class Member(SSEListener):
    """One who posts to a hub and listens there, as a program would put it together."""

    def __init__(self, url: str, *, queue: str) -> None:
        super().__init__(f"{url}/events", queue)
        self._webhook = WebhookNotification(f"{url}/hook/", secret=SECRET, allow_private=True)

    def send(self, queue: str | None, delay: float) -> None:
        now = time.time()
        self._webhook.notify(QueueMessage("", None, queue or "", created_at=now, available_at=now + delay))

    def close(self) -> None:
        super().close()
        self._webhook.close()


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    feed = SSENotification()
    receiver = WebhookReceiver(secret=SECRET, pass_on=feed)
    with served(Starlette(routes=[Mount("/hook", receiver.app), Mount("/events", feed.app)])) as url:
        yield url
        feed.close()


class TestHub(CrossProcessNotificationContract):
    """Webhooks in and events out: every process reaches every other."""

    @pytest.fixture
    def make_policy(self, hub: str) -> Callable[..., Any]:
        return partial(Member, hub)

    def test_a_producer_with_no_listeners_starts_no_thread(self, policy: Any) -> None:
        """It has one that posts, until it is closed."""
        before = set(threading.enumerate())
        for _ in range(100):
            policy.notify(MESSAGE)
        policy.close()
        assert set(threading.enumerate()) <= before

    def test_a_put_wakes_the_listeners_of_its_queue_in_other_processes(
        self, policy: Any, peers: Callable[..., Any], queue: PersistentQueue[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who puts is told at once, and again by the hub: that is waited for, so that it does not come later."""
        heard, put = threading.Semaphore(0), queue.put
        policy.attach(heard.release)

        def put_and_hear(item: Any) -> None:
            while heard.acquire(blocking=False):
                pass  # of what was before
            put(item)
            for _ in range(2):
                assert heard.acquire(timeout=PATIENCE)

        monkeypatch.setattr(queue, "put", put_and_hear)
        super().test_a_put_wakes_the_listeners_of_its_queue_in_other_processes(policy, peers, queue)


def test_each_message_of_a_batch_is_posted_signed_and_without_what_is_in_it(target: Target) -> None:
    with MemoryQueueStore() as store, hook(target.url, headers={"X-Mine": "yes"}) as webhook:
        queue: PersistentQueue[Any] = PersistentQueue("jöbs", store=store, notification_policy=webhook)
        messages = queue.put_many(["secret", "also secret"])
        for message in messages:
            path, headers, body = target.requests.get(timeout=PATIENCE)
            told = json.loads(body)
            assert path == "/hook" and headers["Content-Type"] == "application/json" and headers["X-Mine"] == "yes"
            assert set(told) == {"queue", "message_id", "event_id", "at"}
            assert (told["queue"], told["message_id"], told["at"]) == ("jöbs", message.id, message.available_at)
            assert verify(SECRET, headers[HEADER], body)
        assert webhook.close(PATIENCE) and (webhook.sent, webhook.failed, webhook.retried) == (2, 0, 0)


def test_a_message_is_posted_when_it_can_be_leased_and_not_before(target: Target) -> None:
    with MemoryQueueStore() as store, hook(target.url) as webhook:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=webhook)
        began = time.monotonic()
        later = queue.put("later", delay=DELAY)
        queue.put("waits", after=[later])
        now = queue.put("now")
        in_time = time.monotonic() - began < DELAY
        told = {target.next()["message_id"]: time.monotonic() - began for _ in range(2)}
        assert list(told) == [now.id, later.id] or not in_time
        assert set(told) == {now.id, later.id} and told[later.id] > 0.9 * DELAY


def test_it_tries_again_when_the_receiver_fails_and_signs_anew(target: Target) -> None:
    target.answer(503, 0, 500)
    target.answer(429, Retry_After="0")
    with hook(target.url, retries=4) as webhook:
        webhook.notify(MESSAGE)
        tries = [target.requests.get(timeout=PATIENCE) for _ in range(5)]
        assert webhook.close(PATIENCE)
        assert (webhook.sent, webhook.failed, webhook.retried) == (1, 0, 4)
    assert len({body for _, _, body in tries}) == 1
    assert all(verify(SECRET, headers[HEADER], body) for _, headers, body in tries)


def test_it_gives_up_after_its_retries_says_so_once_and_goes_on(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    target.answer(*(500,) * 6)
    with caplog.at_level(logging.WARNING, "localqueue"), hook(target.url, retries=1) as webhook:
        for _ in range(4):
            webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE)
        assert (webhook.sent, webhook.failed, webhook.retried) == (1, 3, 3)
        assert webhook.last_error == f"{target.url} answered 500"
    assert len(caplog.records) == 1 and target.url in caplog.text


@pytest.mark.parametrize("status", [400, 401, 404, 410, 304])
def test_an_answer_that_will_not_change_is_not_asked_for_again(status: int, target: Target) -> None:
    target.answer(status)
    with hook(target.url) as webhook:
        webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE) and (webhook.failed, webhook.retried) == (1, 0)
        assert webhook.last_error == f"{target.url} answered {status}"
    assert len(target.rest()) == 1


def test_a_slow_receiver_holds_up_neither_the_others_nor_the_producer_and_is_told_to_look_again(target: Target) -> None:
    other = Target()
    try:
        target.gate.clear()
        with hook(target.url, other.url, max_pending=10) as webhook:
            webhook.notify(MESSAGE)
            target.next()  # it hangs now
            other.next()
            for n in range(100):
                webhook.notify(QueueMessage(str(n), None, "jobs" if n % 2 else "mail"))
                other.next()
            assert webhook.coalesced > 80
            target.gate.set()
            assert webhook.close(PATIENCE) and webhook.failed == 0
        left = target.rest()
        assert {event["queue"] for event in left} == {"jobs", "mail"} and len(left) <= 10
        assert None in {event["message_id"] for event in left}
    finally:
        other.close()


def test_closing_waits_no_longer_than_it_was_told_and_leaves_no_thread(target: Target) -> None:
    target.gate.clear()
    before = set(threading.enumerate())
    webhook = WebhookNotification(target.url, allow_private=True, timeout=PATIENCE)
    assert set(threading.enumerate()) == before
    webhook.notify(MESSAGE)
    target.next()
    webhook.notify(MESSAGE)
    assert webhook.close(0.01) is False
    assert webhook.failed == 2
    assert "localqueue-webhook" not in {thread.name for thread in threading.enumerate()}
    webhook.notify(MESSAGE)
    assert "localqueue-webhook" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.multiprocess
def test_the_child_of_a_fork_posts_by_itself(target: Target) -> None:
    with hook(target.url) as webhook:
        webhook.notify(MESSAGE)
        first = target.next()
        child = os.fork()
        if child == 0:
            webhook.notify(MESSAGE)
            os._exit(0 if webhook.close(PATIENCE) else 1)
        second = target.next()
        assert os.waitpid(child, 0)[1] == 0
        webhook.notify(MESSAGE)
        third = target.next()
    lives = [event["event_id"].partition("-")[0] for event in (first, second, third)]
    assert lives[0] == lives[2] != lives[1]


def test_a_redirect_on_the_same_host_is_followed(target: Target) -> None:
    target.answer(307, Location="/there")
    target.answer(308, Location=f"http://127.0.0.1:{target.port}/and/there")
    with hook(target.url) as webhook:
        webhook.notify(MESSAGE)
        paths = [target.requests.get(timeout=PATIENCE)[0] for _ in range(3)]
        assert webhook.close(PATIENCE) and webhook.sent == 1
    assert paths == ["/hook", "/there", "/and/there"]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://169.254.169.254/latest/meta-data", "redirects to another host, 'http://169.254.169.254/latest/meta-"),
        ("http://localhost/admin", "redirects to another host, 'http://localhost/admin'; name that URL instead"),
        ("//10.0.0.1/", "must begin with http:// or https://"),
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("/hook", "redirects more than 3 times"),
    ],
)
def test_a_redirect_to_another_host_or_without_end_is_refused(location: str, why: str, target: Target) -> None:
    target.answer(*(307,) * 9, Location=location)
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return [host]

    with hook(target.url, dialer=Dialer(allow_private=True, resolve=resolve)) as webhook:
        webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE) and (webhook.failed, webhook.retried) == (1, 0)
        assert why in (webhook.last_error or "")
    assert set(asked) == {"127.0.0.1"}


class LocalDialer(Dialer):
    """Resolves names as it is told, and reaches the server of the test at whichever address is connected to."""

    def __init__(self, port: int, *answers: list[str], context: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._answers = list(answers)
        self.connected: list[str] = []
        super().__init__(allow_private=False, resolve=lambda host, port: self._answers.pop(0), context=context)

    def open(self, address: str, port: int, timeout: float) -> socket.socket:
        self.connected.append(address)
        return socket.create_connection(("127.0.0.1", self._port), timeout)


def test_the_address_that_was_checked_is_connected_to_though_the_name_leads_elsewhere_a_moment_later(
    target: Target,
) -> None:
    dialer = LocalDialer(target.port, ["93.184.216.34"], ["127.0.0.1"])
    with hook("http://rebound.example/hook", dialer=dialer) as webhook:
        webhook.notify(MESSAGE)
        _, headers, _ = target.requests.get(timeout=PATIENCE)
        assert headers["Host"] == "rebound.example"
        assert dialer.connected == ["93.184.216.34"]
        target.answer(0, 0)  # so that it connects again, and asks for the address again
        webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE)
        assert dialer.connected == ["93.184.216.34"] and webhook.failed == 1
        assert "leads to 127.0.0.1, which is not on the public internet" in (webhook.last_error or "")


def test_a_redirect_to_a_name_that_has_become_private_is_refused(target: Target) -> None:
    target.answer(307, Location="http://some.example:8080/admin")
    dialer = LocalDialer(target.port, ["93.184.216.34"], ["93.184.216.34", "::ffff:10.0.0.1"])
    with hook("http://some.example/hook", dialer=dialer) as webhook:
        webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE) and webhook.failed == 1
        assert "leads to ::ffff:10.0.0.1" in (webhook.last_error or "")
    assert dialer.connected == ["93.184.216.34"]


def certificate(name: str, path: Path) -> Path:
    """A key and a certificate for a name, which vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    today = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(today - datetime.timedelta(1)).not_valid_after(today + datetime.timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.sign(key, hashes.SHA256()).public_bytes(pem))
    return path


def test_by_tls_the_certificate_must_be_that_of_the_name_though_the_address_is_connected_to(tmp_path: Path) -> None:
    pem = certificate("named.example", tmp_path / "named.pem")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pem)
    target = Target(server_side)
    trusting = ssl.create_default_context(cafile=str(pem))
    addresses = [["93.184.216.34"]] * 3
    try:
        dialer = LocalDialer(target.port, *addresses, context=trusting)
        with hook("https://named.example/hook", "https://other.example/hook", dialer=dialer) as webhook:
            webhook.notify(MESSAGE)
            assert target.next()["message_id"] == "the id"
            assert webhook.close(PATIENCE) and (webhook.sent, webhook.failed, webhook.retried) == (1, 1, 0)
            assert "certificate verify failed" in (webhook.last_error or "")
    finally:
        target.close()


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver(secret=[SECRET, "the next one"], max_body=1000) as receiver:
        yield receiver


def body(number: int = 1, queue: str | None = "jobs", **more: Any) -> bytes:
    content = {"queue": queue, "message_id": "x", "event_id": f"0011223344556677-{number}", "at": 1.0, **more}
    return json.dumps(content, ensure_ascii=False).encode()


def test_a_receiver_takes_what_is_signed_new_and_recent_and_nothing_else(receiver: WebhookReceiver) -> None:
    woken: list[str] = []
    receiver.attach(lambda: woken.append("jobs"), "jobs")
    receiver.attach(lambda: woken.append("mail"), "mail")
    with served(receiver.app) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:

        def post(content: bytes, signature: str | None) -> int:
            return client.post(
                "/any/path", content=content, headers={HEADER: signature} if signature else {}
            ).status_code

        assert not receiver.live and receiver.catch_up <= 0.2
        assert post(body(), sign(SECRET, body())) == 204
        assert woken == ["jobs"] and receiver.live
        assert post(body(), sign(SECRET, body())) == 409
        assert post(body(2), None) == 401
        assert post(body(2), sign("another secret", body(2))) == 401
        assert post(body(2, "mail"), sign(SECRET, body(2))) == 401
        assert post(body(2), sign(SECRET, body(2), at=1.0)) == 401
        assert post(b"[]", sign(SECRET, b"[]")) == 400
        assert post(body(2, event_id="x"), sign(SECRET, body(2, event_id="x"))) == 400
        wide = body(2, "ä" * 600)  # fewer letters than the limit, and more bytes
        assert len(wide.decode()) < 1000 < len(wide) and post(wide, sign(SECRET, wide)) == 413
        assert client.get("/").status_code == 405
        assert woken == ["jobs"] and (receiver.accepted, receiver.refused) == (1, 8)
        assert post(body(2, "mail"), sign("the next one", body(2, "mail"))) == 204
        assert post(body(3, None), sign(SECRET, body(3, None))) == 204
        assert woken == ["jobs", "mail", "jobs", "mail"]


def test_an_event_whose_answer_got_lost_counts_as_sent_when_it_comes_again(target: Target) -> None:
    target.answer(0, 409)
    with hook(target.url) as webhook:
        webhook.notify(MESSAGE)
        assert webhook.close(PATIENCE) and (webhook.sent, webhook.failed) == (1, 0)


def test_a_password_in_an_address_is_sent_and_never_shown(target: Target) -> None:
    url = f"http://me:pass%20word@127.0.0.1:{target.port}/hook?token=hidden"
    target.answer(400)
    with hook(url) as webhook:
        webhook.notify(MESSAGE)
        path, headers, _ = target.requests.get(timeout=PATIENCE)
        assert path == "/hook?token=hidden" and headers["Authorization"] == "Basic bWU6cGFzcyB3b3Jk"
        webhook.close(PATIENCE)
        shown = f"{webhook!r} {webhook.as_dict()} {webhook.last_error}"
    assert "pass" not in shown and "hidden" not in shown and f"127.0.0.1:{target.port}/hook" in shown


def test_an_endpoint_shows_no_secret_in_its_own_text() -> None:
    endpoint = Endpoint(scheme="http", host="h", port=80, target="/?token=hidden", authorization="Basic hidden")
    assert "hidden" not in repr(endpoint) + endpoint.shown
