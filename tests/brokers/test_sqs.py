"""What is special about SQS: other programs on the same queues, what it can not carry, and batches it takes in part."""

from __future__ import annotations

import json
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest

from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.sqs import SQSBroker
from localqueue.brokers.sqs.address import read
from localqueue.contracts.broker_harness import bodies, none_left, numbered, take, take_many
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError, UnsupportedByBroker
from tests.broker_servers import SQS

#: Bodies that SQS refuses, or that XML would change.
BODIES = (
    b"",
    b"=",
    b"plain",
    b'{"a":  1}',
    b"\0",
    b"\xff\xfe",
    b"a\r\nb",
    b"\x1f",
    "\ufffe".encode(),
    "schlüssel \N{SNOWMAN} \N{GRINNING FACE}\n".encode(),
)


@pytest.fixture
def broker(sqs_server: SQS) -> Iterator[SQSBroker]:
    with SQSBroker(sqs_server.url) as opened:
        yield opened


@pytest.fixture
def fifo(sqs_server: SQS) -> Iterator[SQSBroker]:
    with SQSBroker(f"{sqs_server.url}&fifo=true") as opened:
        yield opened


@pytest.fixture
def queue() -> str:
    return f"q-{secrets.token_hex(4)}_A"


@pytest.fixture
def client(sqs_server: SQS) -> Iterator[Any]:
    """Another program: nothing but boto3."""
    client = boto3.client("sqs", **sqs_server.client_options)
    yield client
    client.close()


def test_bodies_come_back_byte_for_byte(broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    broker.send_batch(queue, [Outgoing(body) for body in BODIES])
    assert sorted(bodies(take_many(broker, queue, len(BODIES)))) == sorted(BODIES)


def test_another_program_reads_what_is_sent(broker: SQSBroker, queue: str, client: Any) -> None:
    """Text as it is, and as many headers as attributes as there can be."""
    broker.ensure(queue)
    url = client.get_queue_url(QueueName=queue)["QueueUrl"]
    headers = {f"h{number:02}": str(number) for number in range(12)} | {"empty": "", "naïve": "x", "aws.a": "y"}
    broker.send(queue, Outgoing(b'{"a":  1}', headers, "order-1"))
    (seen,) = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"], VisibilityTimeout=0)["Messages"]
    assert seen["Body"] == '{"a":  1}'
    assert {name: one["StringValue"] for name, one in seen["MessageAttributes"].items() if name != "localqueue"} == {
        f"h{number:02}": str(number) for number in range(9)
    }
    mine = take(broker, queue)
    assert (mine.headers, mine.id) == (headers, "order-1")


def test_what_another_program_sends_is_read(broker: SQSBroker, queue: str, client: Any) -> None:
    broker.ensure(queue)
    url = client.get_queue_url(QueueName=queue)["QueueUrl"]
    attributes = {
        "trace": {"DataType": "String", "StringValue": "t"},
        "size": {"DataType": "Number", "StringValue": "3"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\0"},
        "localqueue": {"DataType": "String", "StringValue": "not ours"},
    }
    sent = client.send_message(QueueUrl=url, MessageBody="<b>héllo</b>", MessageAttributes=attributes)
    mine = take(broker, queue)
    assert (mine.id, mine.body, mine.attempts) == (sent["MessageId"], "<b>héllo</b>".encode(), 1)
    assert mine.headers == {"trace": "t", "size": "3", "raw": "AA==", "localqueue": "not ours"}
    assert mine.sent_at is not None and mine.key is None
    assert broker.nack([mine], dead=True) == [True]
    (dead,) = broker.dead_letters(queue)
    assert (dead.id, dead.headers["trace"], dead.attempts) == (mine.id, "t", 1)
    assert broker.nack([dead]) == [True]
    assert [one.id for one in broker.dead_letters(queue)] == [mine.id]


def test_keys_of_any_characters_group_and_deduplicate(fifo: SQSBroker, queue: str, client: Any) -> None:
    fifo.ensure(queue)
    keys = ["plain", "mit Blank", "\N{SNOWMAN}" * 50, queue]
    for key in (*keys, *keys):
        fifo.send(queue, Outgoing(key.encode(), key=key, dedupe_key=f"{key}!"))
    fifo.send(queue, Outgoing(b"none"))
    found = take_many(fifo, queue, len(keys) + 1)
    assert [(one.key, one.dedupe_key) for one in found] == [*((key, f"{key}!") for key in keys), (None, None)]
    assert fifo.ack(found) == [True] * len(found)
    url = client.get_queue_url(QueueName=f"{queue}.fifo")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g", MessageDeduplicationId="d")
    other = take(fifo, queue)
    assert (other.key, other.dedupe_key) == ("g", "d")


def test_more_than_ten_are_received_at_once(broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    broker.send_batch(queue, [*numbered(24), Outgoing(b"x" * 200_000), Outgoing(b"y" * 200_000)])
    found = broker.receive(queue, 25, wait=PATIENCE)
    assert len(found) == 25
    assert broker.ack(found) == [True] * 25
    assert len(broker.receive(queue, 25)) == 1


def test_a_message_is_refused_when_it_is_too_large_as_it_travels(broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    with pytest.raises(UnsupportedByBroker, match="base64"):
        broker.send_batch(queue, [Outgoing(b"x"), Outgoing(b"\xff" * 800_000)])
    with pytest.raises(UnsupportedByBroker, match="headers"):
        broker.send(queue, Outgoing(b"x" * 1_048_576, {"a": "b"}))
    assert none_left(broker, queue)
    broker.send(queue, Outgoing(b"x" * 1_048_576))
    assert len(take(broker, queue).body) == 1_048_576


def test_leases_and_delays_have_their_limits(broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    broker.send(queue, Outgoing(b"x"))
    with pytest.raises(UnsupportedByBroker, match="43200"):
        broker.receive(queue, lease=43_201)
    held = take(broker, queue)
    for settle in (lambda: broker.nack([held], delay=50_000), lambda: broker.extend([held], 50_000)):
        with pytest.raises(UnsupportedByBroker, match="43200"):
            settle()
    with pytest.raises(ValueError, match="seconds"):
        broker.extend([held], 0)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "jobs.fifo", "é", "j" * 71])
def test_a_name_that_sqs_can_not_have_is_refused(fifo: SQSBroker, name: str) -> None:
    for use in (fifo.ensure, fifo.receive, fifo.stats, fifo.delete, fifo.purge):
        with pytest.raises(ValueError, match=r"without '\.fifo'"):
            use(name)


def test_addresses_say_where_and_how() -> None:
    aws = read("sqs://eu-central-1?fifo=true&wait=5")
    assert (aws.region, aws.endpoint, aws.credentials, aws.fifo, aws.wait) == ("eu-central-1", None, {}, True, 5)
    own = read("sqs://key:gehe%2Fim%2Bnis@localhost:4566/?region=us-west-2&tls=true&token=fluechtig")
    assert (own.region, own.endpoint, own.fifo, own.wait) == ("us-west-2", "https://localhost:4566", False, 20)
    assert own.credentials == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "gehe/im+nis",
        "aws_session_token": "fluechtig",
    }
    assert "nis" not in repr(own) and "fluechtig" not in repr(own)
    assert read("sqs://localhost:9324").endpoint == "http://localhost:9324"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqs://", "names no region"),
        ("sqs://eu-central-1/jobs", "no path"),
        ("sqs://eu-central-1?fifo=yes", "true or false"),
        ("sqs://eu-central-1?wait=21", "from 1 to 20"),
        ("sqs://eu-central-1?wait=x", "from 1 to 20"),
        ("sqs://eu-central-1?retries=3", "no option 'retries'"),
        ("sqs://eu-central-1?region=us-east-1", "two regions"),
        ("sqs://key@localhost:1", "go together"),
    ],
)
def test_an_address_that_can_not_be_understood_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        open_broker(url)


def test_an_endpoint_that_does_not_answer_is_unavailable() -> None:
    with SQSBroker("sqs://key:geheimnis@127.0.0.1:1") as broker:
        health = broker.health()
        assert (
            not health.ok and "can not be reached" in health.detail and "geheimnis" not in health.detail + repr(broker)
        )


class HalfDeaf(ThreadingHTTPServer):
    """Stands before the service and is too busy for some entries of its batches: the last of each of so many requests,
    or, of bodies that begin so, all."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = port
        self.busy = 0
        self.never = "never"
        self.batches: list[int] = []
        self._heard: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def heard(self, operation: str) -> threading.Event:
        """Set when the service has been asked for it."""
        return self._heard[operation]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HalfDeaf

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        failed: list[dict[str, Any]] = []
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        self.server.heard(operation).set()
        if operation == "SendMessageBatch":
            asked = json.loads(body)
            entries = asked["Entries"]
            self.server.batches.append(len(entries))
            refused = [one for one in entries if one["MessageBody"].startswith(self.server.never)]
            if self.server.busy:
                self.server.busy -= 1
                refused.append(entries[-1])
            failed = [
                {"Id": one["Id"], "Code": "ServiceUnavailable", "SenderFault": False, "Message": "busy"}
                for one in refused
            ]
            asked["Entries"] = [one for one in entries if one not in refused]
            body = json.dumps(asked).encode()
        status, answer = self._forward(body) if not failed or asked["Entries"] else (200, b"{}")
        if failed:
            answer = json.dumps({**json.loads(answer), "Failed": failed}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        behind = HTTPConnection("127.0.0.1", self.server.behind, timeout=PATIENCE)
        try:
            kept = {
                name: value for name, value in self.headers.items() if name.lower() not in ("content-length", "host")
            }
            behind.request("POST", self.path, body, kept)
            answer = behind.getresponse()
            return answer.status, answer.read()
        finally:
            behind.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Nowhere."""


@pytest.fixture
def half_deaf(sqs_server: SQS) -> Iterator[HalfDeaf]:
    threads = Background()
    with HalfDeaf(sqs_server.port) as server:
        threads.start(server.serve_forever, 0.01)
        yield server
        server.shutdown()
    threads.join()


def test_what_the_service_was_too_busy_for_is_sent_again(half_deaf: HalfDeaf, broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    half_deaf.busy = 2
    with SQSBroker(f"sqs://test:test@127.0.0.1:{half_deaf.server_port}") as sender:
        sent = sender.send_batch(queue, numbered(12))
    assert half_deaf.batches == [10, 1, 1, 2]
    found = take_many(broker, queue, 12)
    assert sorted(one.id for one in found) == sorted(sent)
    assert sorted(int(one.body) for one in found) == list(range(12))


def test_an_error_says_which_messages_were_not_sent(half_deaf: HalfDeaf, broker: SQSBroker, queue: str) -> None:
    broker.ensure(queue)
    batch = [Outgoing(b"never" if number in (3, 4, 7) else b"x") for number in range(23)]
    with (
        SQSBroker(f"sqs://test:test@127.0.0.1:{half_deaf.server_port}") as sender,
        pytest.raises(QueueStoreUnavailableError, match=r"of the 23 messages .* counted from 0: 3-4, 7, 10-22"),
    ):
        sender.send_batch(queue, batch)
    assert bodies(take_many(broker, queue, 7)) == [b"x"] * 7
    assert none_left(broker, queue)


def test_a_queue_that_was_deleted_by_another_is_missed_and_made_again(
    broker: SQSBroker, queue: str, client: Any
) -> None:
    broker.ensure(queue)
    broker.send(queue, Outgoing(b"x"))
    client.delete_queue(QueueUrl=client.get_queue_url(QueueName=queue)["QueueUrl"])
    with pytest.raises(QueueStoreMissingError, match=queue):
        broker.send_batch(queue, numbered(2))
    with pytest.raises(QueueStoreMissingError, match="ensure"):
        broker.receive(queue, wait=1.0)
    broker.ensure(queue)
    broker.send(queue, Outgoing(b"y"))
    assert take(broker, queue).body == b"y"


def test_what_a_poll_brings_after_the_end_is_given_back(half_deaf: HalfDeaf, broker: SQSBroker, queue: str) -> None:
    """A long poll can not be called off: who closes does not wait for it, and what it finds is not held."""
    broker.ensure(queue)
    threads = Background()
    with SQSBroker(f"sqs://test:test@127.0.0.1:{half_deaf.server_port}") as receiver:
        threads.start(lambda: bodies(receiver.receive(queue, wait=PATIENCE, lease=600.0)) == [])
        assert half_deaf.heard("ReceiveMessage").wait(PATIENCE)
    threads.join()
    broker.send(queue, Outgoing(b"x"))
    assert half_deaf.heard("ChangeMessageVisibilityBatch").wait(PATIENCE)
    assert take(broker, queue).body == b"x"
