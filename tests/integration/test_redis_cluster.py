"""The Redis store on a cluster: a namespace is one hash slot, wherever that is and wherever it goes."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from localqueue import AsyncQueue
from localqueue.contracts.steps import PATIENCE, Background, ack, assert_sound, lease, new, put, put_many, take
from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest, RecordWrite, Settle
from localqueue.stores.redis import RedisQueueStore, privileges
from localqueue.stores.redis.schema import root
from tests.servers import Redis, free_port

pytestmark = [pytest.mark.server, pytest.mark.slow]

_fresh = itertools.count()
_OPTIONS = ("--appendonly", "yes", "--cluster-enabled", "yes", "--cluster-node-timeout", "60000")


class Node(Redis):
    """Its second port, for the other nodes, would be 10000 above the first, where clients of others have theirs."""

    def take_ports(self) -> None:
        super().take_ports()
        self.bus = free_port()

    def launch(self) -> subprocess.Popen[bytes]:
        self.options = (*_OPTIONS, "--cluster-port", str(self.bus))
        return super().launch()

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2)


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 3 * PATIENCE
    while not what():
        assert time.monotonic() < deadline, "the cluster was not ready in time"
        time.sleep(0.02)  # between two looks


def _is_ready(node: Node) -> bool:
    with node.client as client:
        info = client.cluster("INFO")
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Node, Node]]:
    """Two nodes, each with half of the slots."""
    nodes = Node(), Node()
    for node, (first, last) in zip(nodes, ((0, 8191), (8192, 16383)), strict=True):
        node.start()
        with node.client as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    with nodes[0].client as client:
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, nodes[1].bus)
    _until(lambda: all(map(_is_ready, nodes)))
    yield nodes
    for node in nodes:
        node.stop()


def _slot(node: Node, namespace: str) -> int:
    with node.client as client:
        return int(client.execute_command("CLUSTER", "KEYSLOT", root(namespace)))


def _namespace_on(cluster: tuple[Node, Node], which: int) -> str:
    """A new namespace whose slot is on the first or on the second node."""
    names = (f"ns{n}" for n in _fresh)
    return next(name for name in names if (_slot(cluster[0], name) >= 8192) == bool(which))


def _keys(node: Node, namespace: str) -> list[bytes]:
    with node.client as client:
        return list(client.scan_iter(match=root(namespace) + b"*", count=10_000))


def _work(store: RedisQueueStore) -> None:
    """Something of everything, so that every kind of key is used."""
    store.enable_journal()
    first = put(store, dedupe_key="d", ordering_key="k", run_id="r", ttl=500)
    put(store, ordering_key="k")
    put(store, "later", after=(first,))
    store.commit(Changes(records=[RecordWrite("result", "a", b"1")]))
    message = take(store, leased_by="w")
    done = Settle("jobs", message.id, "ack", message.attempts)
    (second,) = store.commit(Changes(settle=[done], lease=LeaseRequest("jobs"))).leased
    assert ack(store, second)
    assert ack(store, take(store, "later"))
    store.subscribe("topic", "s")
    store.put_batch("many", [str(n) for n in range(1500)], None)
    assert len(lease(store, "many", limit=1500, timeout=600)) == 1500
    assert store.purge("many") == 1500
    assert store.run("r") is not None
    assert_sound(store, ["jobs", "later", "many"])


def test_the_words_of_the_page_are_enough_on_a_cluster(cluster: tuple[Node, Node]) -> None:
    words = ("on", ">s3cret", *privileges.LEAST.split(), "+cluster|slots", "+asking")
    for node in cluster:
        with node.client as client:
            client.execute_command("ACL", "SETUSER", "jobs", *words)
    for which in (0, 1):
        url = cluster[0].url.replace("redis://", "redis://jobs:s3cret@")
        with RedisQueueStore(url, namespace=_namespace_on(cluster, which)) as store:
            _work(store)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_a_namespace_works_wherever_its_slot_is(cluster: tuple[Node, Node], which: int, scheme: str) -> None:
    namespace = _namespace_on(cluster, which)
    for node in cluster:
        with RedisQueueStore(f"{scheme}://127.0.0.1:{node.port}", namespace=namespace) as store:
            _work(store)
            store.purge("jobs")
    assert _keys(cluster[which], namespace)
    assert not _keys(cluster[1 - which], namespace)


def test_coroutines_work_wherever_the_slot_is(cluster: tuple[Node, Node]) -> None:
    async def program(store: RedisQueueStore) -> None:
        async with asyncio.timeout(PATIENCE), AsyncQueue[int]("jobs", store=store) as queue:
            await asyncio.gather(*map(queue.put, range(20)))
            store._server.node = None  # as a store that has not been told yet
            await asyncio.gather(*map(queue.put, range(20, 40)))
            messages = await queue.get_messages(50)
            assert sorted(message.value for message in messages) == list(range(40))
            assert all(await asyncio.gather(*map(queue.ack, messages)))

    for which in (0, 1):
        with RedisQueueStore(cluster[0].url, namespace=_namespace_on(cluster, which)) as store:
            asyncio.run(program(store))


def test_a_put_through_one_node_wakes_who_listens_through_another(cluster: tuple[Node, Node]) -> None:
    stores = [RedisQueueStore(f"redis://127.0.0.1:{node.port}", namespace="shared") for node in cluster]
    try:
        for producer, consumer in (stores, reversed(stores)):
            with consumer.listen(["jobs"]) as waiter:
                assert lease(consumer) == []
                producer.put_one("jobs", "x", None)
                assert waiter.wait(PATIENCE)
                assert ack(consumer, take(consumer))
    finally:
        for store in stores:
            store.close()


def _start_moving(slot: int, source: Node, target: Node) -> tuple[str, str]:
    with source.client as here, target.client as there:
        source_id = here.execute_command("CLUSTER", "MYID").decode()
        target_id = there.execute_command("CLUSTER", "MYID").decode()
        there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    return source_id, target_id


def _move_keys(slot: int, source: Node, target: Node, most: int) -> None:
    with source.client as here:
        keys = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            here.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)


def _finish_moving(slot: int, target_id: str, *nodes: Node) -> None:
    for node in nodes:
        with node.client as client:
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)


def test_a_slot_that_moves_takes_no_call_until_it_has_moved(cluster: tuple[Node, Node]) -> None:
    """A function that found half of its keys gone would do half of its work."""
    namespace = _namespace_on(cluster, 0)
    source, target = cluster
    slot = _slot(source, namespace)
    with (
        RedisQueueStore(f"redis://127.0.0.1:{source.port}", namespace=namespace) as store,
        RedisQueueStore(f"redis://127.0.0.1:{source.port}", namespace=namespace) as impatient,
    ):
        ids = put_many(store, "abc", dedupe_key=None, ordering_key="k")
        impatient.pause("other")
        impatient._server._timeout = 0.3
        _, target_id = _start_moving(slot, source, target)
        _move_keys(slot, source, target, 3)
        for call in (
            lambda: impatient.put_one("jobs", "x", None),
            lambda: lease(impatient),
            lambda: impatient.commit(Changes(enqueue=[new(impatient, dedupe_key="e")])),
        ):
            with pytest.raises(QueueStoreUnavailableError):
                call()
        threads = Background()
        threads.start(store.put_one, "jobs", "d", None)
        _move_keys(slot, source, target, 1000)
        _finish_moving(slot, target_id, target, source)
        threads.join()
        assert [message.id for message in store.scan("jobs")][:3] == ids
        assert store.qsize("jobs") == 2
        assert_sound(store)
        store.purge("jobs")
        _work(store)
    assert _keys(target, namespace)
    assert not _keys(source, namespace)
