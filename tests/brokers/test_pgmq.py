"""What is special about PGMQ: other programs on the same queues, its channel, its fences, and a server that dies."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pgmq import PGMQueue
from pgmq.install import install_pgmq_from_sql

from localqueue.brokers import Delivery, Outgoing, open_broker
from localqueue.brokers.pgmq import PGMQBroker, letter
from localqueue.brokers.pgmq.backlog import Backlog
from localqueue.contracts.broker_harness import bodies, none_left, take, take_many
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreError, QueueStoreMissingError, QueueStoreUnavailableError
from tests.servers import Postgres

#: Bodies that JSON of PostgreSQL would change, or can not have.
BODIES = (
    b"",
    b"plain",
    b'{"b": 1,   "a": 1e2, "a": 2}',
    b'"\\u0000"',
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r\n\t\x1f",
    "schlüssel \N{SNOWMAN} \N{GRINNING FACE}".encode(),
    json.dumps({"body": "x", "headers": {"localqueue-body": "text"}}).encode(),
)


@pytest.fixture
def broker(pgmq: str) -> Iterator[PGMQBroker]:
    with PGMQBroker(pgmq) as opened:
        yield opened


@pytest.fixture
def sql(pgmq: str) -> Iterator[psycopg.Connection[Any]]:
    """Another program: nothing but SQL."""
    with psycopg.connect(pgmq.replace("pgmq:", "postgresql:", 1), autocommit=True) as connection:
        yield connection


@pytest.fixture
def queue(broker: PGMQBroker) -> Iterator[str]:
    name = f"q{secrets.token_hex(4)}-a.b"  # what PGMQ takes beside letters
    broker.ensure(name)
    yield name
    broker.delete(name)


def test_bodies_come_back_byte_for_byte(broker: PGMQBroker, queue: str) -> None:
    broker.send_batch(queue, [Outgoing(body) for body in BODIES])
    for body in BODIES:
        broker.send(queue, Outgoing(body, {"a": ""}))
    assert bodies(take_many(broker, queue, 2 * len(BODIES))) == [*BODIES, *BODIES]


@pytest.mark.parametrize("headers_apart", [True, False])
def test_a_letter_is_read_as_it_was_written(headers_apart: bool) -> None:
    """Also where PGMQ has no headers yet, and they stand beside the body."""
    for body in BODIES:
        sent = Outgoing(body, {"a": "b", "naïve": "\N{SNOWMAN}"}, "order-1", "k")
        written = letter.written(sent, headers_apart=headers_apart)
        assert (written.headers is None) is not headers_apart
        found = letter.delivery("jobs", 7, 1, 0.0, None, *written)
        assert (found.body, found.headers, found.id, found.key) == (body, sent.headers, "order-1", "k")


def test_another_program_reads_what_is_sent(broker: PGMQBroker, queue: str, pgmq: str) -> None:
    broker.send(queue, Outgoing(b'{"a":  1}', {"trace": "t"}, key="customer-1"))
    other = PGMQueue(conn_string=pgmq.replace("pgmq:", "postgresql:", 1), init_extension=False)
    try:
        found = other.read(queue, vt=30)
        assert found.message == {"body": '{"a":  1}'}
        assert found.headers["trace"] == "t" and found.headers["x-pgmq-group"] == "customer-1"
        other.send(queue, {"made": ["by", "it"]}, headers={"n": 1, "x-pgmq-group": "g"})
        assert broker.stats(queue)[:2] == (1, 1)
        assert other.delete(queue, found.msg_id)
    finally:
        other.close()
    (mine,) = broker.receive(queue, 5)
    assert json.loads(mine.body) == {"made": ["by", "it"]} and mine.id == str(mine.receipt.msg_id)
    assert (mine.headers, mine.key) == ({"n": "1"}, "g")
    assert broker.nack([mine], dead=True) == [True]
    (dead,) = broker.dead_letters(queue)
    assert (json.loads(dead.body), dead.id, dead.attempts) == ({"made": ["by", "it"]}, mine.id, 1)


@pytest.mark.parametrize(
    "message", ['"text"', "3", "null", "[1]", '{"body": "x"}', '{"headers": {"localqueue-body": 1}}']
)
def test_any_json_of_another_program_is_delivered_as_its_text(
    broker: PGMQBroker, queue: str, sql: psycopg.Connection[Any], message: str
) -> None:
    sql.execute("SELECT pgmq.send(%s, %s::jsonb)", (queue, message))
    sql.execute('SELECT pgmq.send(%s, %s::jsonb, \'{"localqueue-body": "base64"}\'::jsonb)', (queue, message))
    found = take_many(broker, queue, 2)
    if message == '{"body": "x"}':
        found = found[:1]  # the other one says that it is ours
    assert {one.body.decode() for one in found} == {message}


def test_what_is_told_carries_nothing(broker: PGMQBroker, queue: str, sql: psycopg.Connection[Any]) -> None:
    """A payload of a NOTIFY has 7999 bytes at most: these characters, in bytes, are more."""
    sql.execute(f'LISTEN "pgmq.q_{queue}.INSERT"')
    broker.send_batch(queue, [Outgoing(("\N{CJK UNIFIED IDEOGRAPH-4E00}" * 6990).encode())] * 3)
    heard = list(sql.notifies(timeout=PATIENCE, stop_after=1))
    assert [(one.channel, one.payload) for one in heard] == [(f"pgmq.q_{queue}.INSERT", "")]
    assert len(take_many(broker, queue, 3)) == 3


def test_a_listener_hears_what_any_program_sends(
    broker: PGMQBroker, queue: str, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks by himself here: who waits is told, or waits in vain."""
    monkeypatch.setattr("localqueue.stores.listener._HEARS", 10 * PATIENCE)
    for _ in range(5):
        threads, found, waiting = Background(), list[Delivery](), threading.Event()

        def receive(found: list[Delivery] = found, waiting: threading.Event = waiting) -> None:
            waiting.set()
            found.append(take(broker, queue))

        threads.start(receive)
        assert waiting.wait(PATIENCE)
        sql.execute("SELECT pgmq.send(%s, '{}')", (queue,))
        threads.join()
        assert bodies(found) == [b"{}"]


def test_who_may_not_make_a_trigger_uses_the_queue_without(
    broker: PGMQBroker, queue: str, pgmq: str, sql: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    role = f"r{secrets.token_hex(4)}"
    sql.execute(f'DROP TRIGGER localqueue_notify_insert ON pgmq."q_{queue}"')
    sql.execute(f"CREATE ROLE {role} LOGIN")
    try:
        sql.execute(f"GRANT USAGE ON SCHEMA pgmq TO {role}")
        sql.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pgmq TO {role}")
        with PGMQBroker(pgmq.replace("//test@", f"//{role}@")) as other:
            other.ensure(queue)
            assert f"inserts into queue '{queue}'" in caplog.text
            other.send(queue, Outgoing(b"x"))
            assert other.ack([take(other, queue)]) == [True]
            with pytest.raises(QueueStoreError, match="grant it the right"):
                other.ensure(f"{queue}2")
    finally:
        sql.execute(f"DROP OWNED BY {role}")
        sql.execute(f"DROP ROLE {role}")


def test_pgmqs_own_notify_is_left_as_it_is(broker: PGMQBroker, sql: psycopg.Connection[Any]) -> None:
    name = f"q{secrets.token_hex(4)}"
    sql.execute("SELECT pgmq.create(%s)", (name,))
    sql.execute("SELECT pgmq.enable_notify_insert(%s, 125)", (name,))
    try:
        broker.ensure(name)
        broker.ensure(name)
        triggers = sql.execute(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND NOT tgisinternal", (f"pgmq.q_{name}",)
        ).fetchall()
        assert triggers == [("trigger_notify_queue_insert_listeners",)]
        found = sql.execute(
            "SELECT throttle_interval_ms FROM pgmq.notify_insert_throttle WHERE queue_name = %s", (name,)
        ).fetchone()
        assert found == (125,)
    finally:
        broker.delete(name)


def test_what_was_given_back_can_not_be_settled_by_who_gave_it_back(broker: PGMQBroker, queue: str) -> None:
    broker.send(queue, Outgoing(b"x"))
    held = take(broker, queue)
    assert broker.nack([held], delay=60.0) == [True]
    assert (broker.ack([held]), broker.nack([held]), broker.extend([held], 5.0)) == ([False], [False], [None])
    assert broker.stats(queue) == (0, 0, 1, 0)


def test_who_is_late_but_was_not_overtaken_may_still_ack(
    broker: PGMQBroker, queue: str, sql: psycopg.Connection[Any]
) -> None:
    broker.send(queue, Outgoing(b"x"))
    held = take(broker, queue)
    sql.execute("SELECT pgmq.set_vt(%s, %s, 0)", (queue, held.receipt.msg_id))
    assert broker.ack([held, held]) == [True, False]
    assert none_left(broker, queue)


def test_a_queue_of_another_program_gets_its_dead_letters_when_it_has_one(
    broker: PGMQBroker, sql: psycopg.Connection[Any]
) -> None:
    name = f"q{secrets.token_hex(4)}"
    sql.execute("SELECT pgmq.create(%s)", (name,))
    try:
        assert broker.dead_letters(name) == [] and broker.stats(name) == (0, 0, 0, 0)
        broker.send(name, Outgoing(b"bad"))
        held = take(broker, name)
        assert broker.nack([held], dead=True, error={"type": "ValueError"}) == [True]
        assert broker.nack(broker.dead_letters(name)) == [True]  # stays where it is
        assert bodies(broker.dead_letters(name)) == [b"bad"]
        assert broker.nack([held], dead=True) == [False] and broker.stats(name).dead == 1
    finally:
        broker.delete(name)


def test_messages_of_a_batch_have_delays_of_their_own(broker: PGMQBroker, queue: str) -> None:
    batch = [Outgoing(b"a"), Outgoing(b"b", delay=3600.5), Outgoing(b"c"), Outgoing(b"d", delay=3600.5)]
    ids = broker.send_batch(queue, batch)
    assert broker.stats(queue) == (2, 0, 2, 0)
    assert [(one.id, one.body) for one in take_many(broker, queue, 2)] == [(ids[0], b"a"), (ids[2], b"c")]


@pytest.mark.parametrize("name", ["", "Jobs", "a b", "a;b", 'a"b', "a--b", "a$", "é", "j" * 43])
def test_a_name_that_pgmq_can_not_have_is_refused(broker: PGMQBroker, name: str) -> None:
    for use in (broker.ensure, broker.receive, broker.stats, broker.delete, broker.subscribe, broker.purge):
        with pytest.raises(ValueError, match="can not have a queue"):
            use(name)
    with pytest.raises(ValueError, match="42 lower-case letters"):
        broker.send(name, Outgoing(b"x"))


def test_the_longest_name_can_be_had(broker: PGMQBroker) -> None:
    name = secrets.token_hex(21)
    broker.ensure(name)
    try:
        broker.send(name, Outgoing(b"x"))
        assert broker.nack([take(broker, name)], dead=True) == [True]
        assert bodies(broker.dead_letters(name)) == [b"x"]
    finally:
        broker.delete(name)


def test_a_database_without_pgmq_says_how_to_get_it_and_stays_without(postgres: Postgres) -> None:
    url = postgres.url.replace("postgresql:", "pgmq:", 1)
    with PGMQBroker(url) as broker:
        for use in (broker.ensure, broker.receive, broker.stats, broker.delete):
            with pytest.raises(QueueStoreMissingError, match="CREATE EXTENSION pgmq"):
                use("jobs")
        health = broker.health()
        assert not health.ok and "CREATE EXTENSION" in health.detail
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT to_regnamespace('pgmq')").fetchone() == (None,)


def test_a_header_that_json_can_not_have_is_refused(broker: PGMQBroker, queue: str) -> None:
    for value in ("\0", "\ud800"):
        with pytest.raises(ValueError, match="can not store"):
            broker.send(queue, Outgoing(b"x", {"a": value}))
    assert none_left(broker, queue)


def test_no_password_is_shown() -> None:
    with PGMQBroker("pgmq://user:geheimnis@127.0.0.1:1/db", timeout=0.5) as broker:
        assert "geheimnis" not in repr(broker) + broker.url + repr(vars(broker))
        with pytest.raises(QueueStoreUnavailableError) as failed:
            broker.stats("jobs")
        assert "geheimnis" not in str(failed.value)
        assert not broker.health().ok


def test_who_is_told_and_can_read_nothing_is_told_again_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another program has read the message in a transaction that is still open."""
    now, reads, pauses = [100.0], Counter[str](), list[float]()
    monkeypatch.setattr("localqueue.brokers.pgmq.backlog.time", SimpleNamespace(monotonic=lambda: now[0]))
    backlog = Backlog("jobs", lambda _: -1.0, reads)
    for _ in range(10):
        assert backlog.look() == (True, 0.0)
        done, again = backlog.look()
        assert not done
        pauses.append(again)
        now[0] += again + 0.001
    assert pauses == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0])
    assert backlog.look() == (True, 0.0) and not backlog.look()[0]
    reads["jobs"] += 1
    assert backlog.look() == (True, 0.0)


@pytest.mark.multiprocess
def test_a_child_of_a_fork_has_connections_of_its_own(broker: PGMQBroker, queue: str) -> None:
    broker.send(queue, Outgoing(b"of the parent"))
    assert broker.receive(queue, wait=0.05) != []
    child = os.fork()
    if child == 0:
        try:
            broker.send(queue, Outgoing(b"of the child"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert take(broker, queue).body == b"of the child"


@pytest.mark.crash
@pytest.mark.slow
def test_a_server_that_is_killed_while_somebody_receives_loses_nothing() -> None:
    server = Postgres()
    server.start()
    try:
        install_pgmq_from_sql(dsn=server.url)
        with open_broker(server.url.replace("postgresql:", "pgmq:", 1)) as broker:
            broker.ensure("jobs")
            sent = set(broker.send_batch("jobs", [Outgoing(str(number).encode()) for number in range(20)]))
            acked: set[str] = set()
            for one in take_many(broker, "jobs", 5, lease=1.0):
                acked |= {one.id} if broker.ack([one]) == [True] else set()
            take_many(broker, "jobs", 15, lease=1.0)  # held by one that is gone when the server is
            threads, failed = Background(), []

            def wait() -> None:
                try:
                    broker.receive("jobs", wait=PATIENCE, lease=1.0)
                except QueueStoreUnavailableError as error:
                    failed.append(error)

            threads.start(wait)
            server.kill()
            threads.join()
            server.start()
            while len(acked) < 20:
                for one in take_many(broker, "jobs", 1):
                    acked |= {one.id} if broker.ack([one]) == [True] else set()
            assert acked == sent and broker.stats("jobs") == (0, 0, 0, 0)
    finally:
        server.stop()
