"""A client that dies inside a transaction does not stop others for longer than a few seconds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.database import Database

from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.mongodb.transaction import Orphans
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.processes import context
from tests.servers import MongoDB, shared
from tests.stores import on_server

pytestmark = [pytest.mark.server, pytest.mark.multiprocess, pytest.mark.slow]

LEASE = 30.0


@pytest.fixture
def store() -> Iterator[MongoDBQueueStore]:
    with on_server(shared(MongoDB)).open() as store:
        yield store  # type: ignore[misc]


def _die_inside(url: str, namespace: str, what: str) -> None:
    """Commit something, and be killed when everything of it is written but the commit itself."""
    from localqueue.stores.mongodb import MongoDBQueueStore, transaction

    store = MongoDBQueueStore(url, namespace=namespace)
    transaction._commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    match what:
        case "put":
            store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "dead", ordering_key="k")]))
        case "ack":
            (message,) = store.lease(LeaseRequest("jobs", 1, LEASE))
            store.commit(Changes(settle=[Settle("jobs", message.id, "ack", message.attempts)]))
        case "lease":
            store.lease(LeaseRequest("jobs", 1, LEASE, consume=True))


@pytest.mark.parametrize("what", ["put", "ack", "lease"])
def test_a_client_that_died_inside_a_transaction_is_passed(store: MongoDBQueueStore, what: str) -> None:
    for n in range(3):
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", str(n), ordering_key="k")]))
    child = context.Process(target=_die_inside, args=(shared(MongoDB).url, store.namespace, what))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL

    began = time.monotonic()
    store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "3", ordering_key="k")]))
    if what != "ack":  # whose message is leased to the one that died
        (message,) = store.lease(LeaseRequest("jobs", 1, LEASE, "worker", consume=True))
        assert message.payload == "0"
    assert time.monotonic() - began < LEASE, "others were stopped for longer than a lease"
    assert store.check().problems == ()


def test_a_client_may_be_closed_while_its_orphans_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with MongoDBQueueStore(shared(MongoDB).url, namespace="closed", timeout=7.5) as store:
        client, orphans = store.server.client, Orphans(store.server)
        session = client.start_session()
        session.start_transaction()
        store.server.messages.find_one({}, session=session)
        orphans._sessions.append(session)
        command = Database.command

        def kill_and_close(*args: Any, **options: Any) -> Any:
            answer = command(*args, **options)
            client.close()
            return answer

        monkeypatch.setattr(Database, "command", kill_and_close)
        assert orphans.end()
