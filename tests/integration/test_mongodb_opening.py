"""Opening a store on MongoDB: what is refused, and what many processes may do at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from localqueue.errors import QueueStoreError, QueueStoreUnavailableError, QueueStoreVersionError
from localqueue.stores.mongodb import MongoDBQueueStore
from tests.processes import context
from tests.servers import MongoDB, free_port

pytestmark = pytest.mark.server


@pytest.fixture
def fresh_url(mongodb: MongoDB) -> str:
    """A database of its own."""
    return mongodb.url.replace("/?", f"/{uuid4().hex}?")


@pytest.fixture
def standalone() -> Iterator[MongoDB]:
    server = MongoDB(replica_set=False)
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
def test_a_server_that_stands_alone_is_refused_with_the_way_out(standalone: MongoDB) -> None:
    with pytest.raises(QueueStoreError, match=r"replica set.*--replSet rs0.*rs\.initiate"):
        MongoDBQueueStore(standalone.url)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(QueueStoreUnavailableError) as caught:
        MongoDBQueueStore(f"mongodb://me:secret@127.0.0.1:{free_port()}/jobs", timeout=0.3)
    assert "secret" not in str(caught.value)
    assert caught.value.path is not None
    assert caught.value.path.startswith("mongodb://me@127.0.0.1:")


def test_a_newer_schema_is_refused_and_left_alone(fresh_url: str) -> None:
    with MongoDBQueueStore(fresh_url) as store:
        versions = store.server.database.lq_schema
        versions.update_one({"_id": "version"}, {"$set": {"version": 99}})
    with pytest.raises(QueueStoreVersionError, match="99"):
        MongoDBQueueStore(fresh_url)


def test_the_database_is_the_path_of_the_url(mongodb: MongoDB) -> None:
    name = uuid4().hex
    with MongoDBQueueStore(mongodb.url.replace("/?", f"/{name}?")) as one:
        assert one.server.database.name == name
        assert one.url.endswith(f"/{name}")
    with MongoDBQueueStore(mongodb.url) as other:
        assert other.server.database.name == "localqueue"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"durability": "best"}, "durability"), ({"namespace": ""}, "namespace"), ({"timeout": 0}, "timeout")],
)
def test_options_that_make_no_sense_are_refused(mongodb: MongoDB, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MongoDBQueueStore(mongodb.url, **options)


def test_power_is_what_every_write_has(mongodb: MongoDB) -> None:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex, durability="power") as store:
        concern = store.server.messages.write_concern.document
        assert concern == {"w": "majority", "j": True}


def _open_and_put(url: str, go: Any, ids: Any) -> None:
    go.wait(60)
    with MongoDBQueueStore(url) as store:
        ids.put((store.namespace_id, store.queue_number("jobs"), store.put_one("jobs", "x", None)[0]))


@pytest.mark.multiprocess
@pytest.mark.slow
def test_processes_that_open_a_new_database_at_once_agree_on_everything(fresh_url: str) -> None:
    go, ids = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_open_and_put, args=(fresh_url, go, ids)) for _ in range(4)]
    for process in processes:
        process.start()
    answers = [ids.get(timeout=90) for _ in processes]
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    assert len({(namespace, queue) for namespace, queue, _ in answers}) == 1
    with MongoDBQueueStore(fresh_url) as store:
        assert sorted(message.id for message in store.scan("jobs")) == sorted(new for _, _, new in answers)
        assert store.check().ok
