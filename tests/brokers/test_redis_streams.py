"""Redis Streams: what is its own, beside the contract."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from localqueue.brokers import BrokerStats, Message, Outgoing, open_broker
from localqueue.brokers.redis_streams import RedisStreamsBroker
from localqueue.brokers.redis_streams.functions import LEAST
from localqueue.contracts.broker_harness import bodies, none_left, numbered, take, take_many
from localqueue.contracts.steps import MOMENT, PATIENCE, Background
from localqueue.errors import QueueStoreError, QueueStoreMissingError, QueueStoreUnavailableError
from tests.processes import context
from tests.servers import Redis

pytestmark = pytest.mark.server


def _url(server: Redis, options: str = "") -> str:
    return server.url.replace("redis://", "redis+stream://", 1) + options


@pytest.fixture
def broker(redis_server: Redis) -> Iterator[RedisStreamsBroker]:
    with RedisStreamsBroker(_url(redis_server)) as broker:
        yield broker


@pytest.fixture
def queue(broker: RedisStreamsBroker) -> str:
    name = f"q{secrets.token_hex(5)}"
    broker.ensure(name)
    return name


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


def test_a_plain_client_sends_and_receives(broker: RedisStreamsBroker, queue: str, client: redis.Redis) -> None:
    client.xadd(queue, {"body": b"\x00plain", "trace": "t"})
    entry = client.xadd(queue, {"order": "42", "state": "new"})
    with_body, without = take_many(broker, queue, 2)
    assert (with_body.body, with_body.headers) == (b"\x00plain", {"trace": "t"})
    assert (without.id, json.loads(without.body)) == (entry.decode(), {"order": "42", "state": "new"})
    broker.send(queue, Outgoing(b"ours", {"a": "b"}, id="m", key="k"))
    ((_, ((entry, fields),)),) = client.xreadgroup("localqueue", "plain", {queue: ">"})
    assert fields == {b"body": b"ours", b"headers": b'{"a": "b"}', b"id": b"m", b"key": b"k"}
    assert broker.stats(queue) == BrokerStats(0, 3, 0, 0)
    assert client.xack(queue, "localqueue", entry) == 1
    assert broker.stats(queue) == BrokerStats(0, 2, 0, 0)


def test_what_a_plain_consumer_has_left_alone_is_delivered(
    redis_server: Redis, broker: RedisStreamsBroker, queue: str, client: redis.Redis
) -> None:
    broker.send_batch(queue, numbered(3))
    reading = time.monotonic()
    client.xreadgroup("localqueue", "plain", {queue: ">"}, count=2)
    with RedisStreamsBroker(_url(redis_server, "?claim_after=0.3")) as eager:
        found = take_many(eager, queue, 3)
        assert time.monotonic() - reading > 0.9 * 0.3
        assert {one.body: one.attempts for one in found} == {b"0": 2, b"1": 2, b"2": 1}
        assert bodies([one for one in found if one.attempts == 2]) == [b"0", b"1"]
        assert eager.ack(found) == [True] * 3
    assert client.xlen(queue) == 0


def _receive_and_hang(url: str, queue: str, took: Any) -> None:
    broker = RedisStreamsBroker(url)
    broker.receive(queue, 2, wait=PATIENCE, lease=0.5)
    took.set()
    threading.Event().wait()


@pytest.mark.multiprocess
def test_what_a_killed_process_held_comes_back(redis_server: Redis, broker: RedisStreamsBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(3))
    took = context.Event()
    process = context.Process(target=_receive_and_hang, args=(_url(redis_server), queue, took), daemon=True)
    process.start()
    assert took.wait(3 * PATIENCE) and process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    found = take_many(broker, queue, 3)
    assert {one.body: one.attempts for one in found} == {b"2": 1, b"0": 2, b"1": 2}
    assert broker.ack(found) == [True] * 3


def test_a_server_that_is_killed_loses_nothing_that_was_confirmed() -> None:
    server = Redis()
    server.start()
    try:
        with RedisStreamsBroker(_url(server)) as broker:
            broker.ensure("jobs")
            sent = broker.send_batch("jobs", numbered(10))
            first = take(broker, "jobs")
            assert broker.ack([first]) == [True]
            seen = {first.id}
            subscription = broker.subscribe("jobs", prefetch=4, lease=1.0)
            assert isinstance(subscription.next(PATIENCE), Message)
            waiting, threads = RedisStreamsBroker(_url(server)), Background()
            waiting.ensure("other")
            broken: list[bool] = []
            threads.start(lambda: broken.append(_breaks(lambda: waiting.receive("other", wait=10 * PATIENCE))))
            server.kill()
            assert _breaks(lambda: broker.send("jobs", Outgoing(b"x")))
            assert not broker.health().ok
            threads.join()
            assert broken == [True]
            with pytest.raises(QueueStoreUnavailableError):
                while subscription.next(PATIENCE):
                    pass
            server.start()
            assert broker.health().ok and waiting.receive("other") == []
            while len(seen) < 10:
                told = subscription.next(PATIENCE)
                assert isinstance(told, Message)
                seen.add(told.delivery.id)
                broker.ack([told.delivery])
            assert seen == set(sent)
            subscription.close()
            waiting.close()
    finally:
        server.stop()


def _breaks(call: Callable[[], object]) -> bool:
    try:
        call()
    except QueueStoreUnavailableError:
        return True
    return False


def test_what_is_given_back_comes_before_what_is_new(broker: RedisStreamsBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(15))
    found = take_many(broker, queue, 12)
    assert broker.nack(list(reversed(found))) == [True] * 12
    assert bodies(take_many(broker, queue, 15)) == [str(number).encode() for number in range(15)]


def test_who_waits_hears_of_what_falls_due_sooner(
    redis_server: Redis, broker: RedisStreamsBroker, queue: str, client: redis.Redis
) -> None:
    broker.send(queue, Outgoing(b"much later", delay=3600.0))
    threads, found = Background(), list[bytes]()
    threads.start(lambda: found.append(take(broker, queue).body))
    while not any(one["cmd"].startswith("xread") for one in client.client_list()):
        pass
    broker.send(queue, Outgoing(b"soon", delay=0.05))
    threads.join()
    assert found == [b"soon"]
    assert broker.stats(queue).delayed == 1


def test_counts_are_exact_whatever_was_done(broker: RedisStreamsBroker, queue: str) -> None:
    chance = random.Random(7)
    ready = inflight = delayed = dead = 0
    held: list[Any] = []
    for _ in range(300):
        count = chance.randint(1, 4)
        match chance.choice(("send", "send", "later", "receive", "receive", "ack", "nack", "retry", "bury", "purge")):
            case "send":
                broker.send_batch(queue, numbered(count))
                ready += count
            case "later":
                broker.send_batch(queue, numbered(count, delay=3600.0))
                delayed += count
            case "receive":
                found = broker.receive(queue, count, lease=3600.0)
                assert len(found) == min(count, ready)
                ready, inflight = ready - len(found), inflight + len(found)
                held += found
            case "purge" if chance.random() < 0.2:
                assert broker.purge(queue) == ready + delayed
                ready = delayed = 0
            case settle if held:
                one = held.pop(chance.randrange(len(held)))
                inflight -= 1
                if settle == "ack":
                    assert broker.ack([one, one]) == [True, False]
                elif settle == "nack":
                    assert broker.nack([one]) == [True]
                    ready += 1
                elif settle == "retry":
                    assert broker.nack([one], delay=3600.0) == [True]
                    delayed += 1
                else:
                    assert broker.nack([one], dead=True) == [True]
                    dead += 1
            case _:
                pass
        assert broker.stats(queue) == BrokerStats(ready, inflight, delayed, dead)


def test_a_consumer_that_holds_nothing_leaves_no_trace(
    redis_server: Redis, broker: RedisStreamsBroker, queue: str, client: redis.Redis
) -> None:
    broker.send_batch(queue, numbered(2))
    with RedisStreamsBroker(_url(redis_server)) as other:
        assert other.ack([take(other, queue)]) == [True]
    assert client.xinfo_consumers(queue, "localqueue") == []
    with RedisStreamsBroker(_url(redis_server)) as other:
        take(other, queue)
    assert [one["pending"] for one in client.xinfo_consumers(queue, "localqueue")] == [1]


def test_what_nobody_took_was_no_delivery(broker: RedisStreamsBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(3))
    subscription = broker.subscribe(queue)
    told = subscription.next(PATIENCE)
    assert isinstance(told, Message)
    subscription.close()
    assert [(one.body, one.attempts) for one in take_many(broker, queue, 2)] == [(b"1", 1), (b"2", 1)]


def test_a_subscription_renews_what_lies_in_it(
    broker: RedisStreamsBroker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When half of the lease is over, on a clock that the test sets forward."""
    ahead = [0.0]
    monkeypatch.setattr(
        "localqueue.brokers.redis_streams.subscription.time",
        SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0]),
    )
    broker.send_batch(queue, numbered(3))
    subscription = broker.subscribe(queue, prefetch=3, lease=300.0)
    told = [subscription.next(PATIENCE)]
    assert broker.receive(queue, wait=MOMENT) == []
    told.append(subscription.next(PATIENCE))
    ahead[0] = 151.0
    told.append(subscription.next(PATIENCE))
    found = [one.delivery for one in told if isinstance(one, Message)]
    first, second, renewed = [one.leased_until for one in found]
    assert first is not None and renewed is not None and first == second < renewed
    assert broker.extend(found[:1], 60.0)[0] is not None
    assert broker.ack(found) == [True] * 3
    subscription.close()


def test_the_named_privileges_are_enough(redis_server: Redis, queue: str, client: redis.Redis) -> None:
    words = [word.replace("<queue>", queue) for word in LEAST.split()]
    client.execute_command("ACL", "SETUSER", "streams", "reset", "on", ">secret word", *words)
    where = redis_server.url.removeprefix("redis://")
    with RedisStreamsBroker(f"redis+stream://streams:secret%20word@{where}") as broker:
        assert "secret" not in repr(broker) and "streams@" in broker.url
        broker.ensure(queue)
        broker.send_batch(queue, [Outgoing(b"a"), Outgoing(b"b", delay=0.01)])
        one, two = take_many(broker, queue, 2)
        assert broker.extend([one], 60.0)[0] is not None and broker.nack([two]) == [True]
        assert broker.nack([take(broker, queue)], dead=True) == [True] and broker.ack([one]) == [True]
        assert broker.ack(broker.dead_letters(queue)) == [True]
        assert broker.purge(queue) == 0 and none_left(broker, queue) and broker.health().ok
        with pytest.raises(QueueStoreError, match="fcall_ro"):
            broker.ensure("another")
        broker.delete(queue)
    client.execute_command("ACL", "DELUSER", "streams")


def test_a_fork_has_connections_and_a_name_of_its_own(broker: RedisStreamsBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(2))
    mine = take(broker, queue)
    child = os.fork()
    if child == 0:
        try:
            found = broker.receive(queue, wait=PATIENCE)
            os._exit(0 if broker.ack(found) == [True] and bodies(found) == [b"1"] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert broker.ack([mine]) == [True]
    assert broker.stats(queue) == BrokerStats(0, 0, 0, 0)


def test_another_group_is_another_queue(redis_server: Redis, broker: RedisStreamsBroker, queue: str) -> None:
    with RedisStreamsBroker(_url(redis_server, "?group=reports")) as other:
        with pytest.raises(QueueStoreMissingError, match="reports"):
            other.receive(queue)
        with pytest.raises(QueueStoreMissingError, match="reports"):
            other.subscribe(queue)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+stream://localhost/0?claim_after=soon", "claim_after"),
        ("redis+stream://localhost/0?group=", "group"),
        ("redis+stream://localhost/zero?nonsense=1", "nonsense|zero"),
    ],
)
def test_an_address_that_can_not_be_read_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        open_broker(url)


def test_a_queue_has_a_name_without_braces(broker: RedisStreamsBroker) -> None:
    with pytest.raises(ValueError, match="braces"):
        broker.ensure("a{b}")
