"""A store that was open when the process forked works in both, each with connections of its own."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from uuid import uuid4

import pytest

from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.port import LeaseRequest
from tests.crash.children import Child
from tests.servers import MongoDB

pytestmark = [pytest.mark.server, pytest.mark.multiprocess]

PUTS = 30


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _put_all(store: MongoDBQueueStore, who: str) -> None:
    for n in range(PUTS):
        store.put_one("jobs", f"{who}-{n}", None)


def _put_and_wait(store: MongoDBQueueStore, who: str) -> None:
    _put_all(store, who)
    with store.listen(["jobs"]) as waiter:
        assert waiter.wait(20)
    assert store.lease(LeaseRequest("nothing")) == []
    store.close()


def _use_in_both(connection: Connection, url: str, namespace: str) -> None:
    store = MongoDBQueueStore(url, namespace=namespace)
    second = MongoDBQueueStore(url, namespace=namespace)  # shares the connections of the first
    _put_all(store, "before")
    assert not store.listen(["nothing"]).wait(0)  # so that the listener runs, too
    children = [_forked(lambda n=n: _put_and_wait(store, f"child{n}")) for n in range(2)]  # type: ignore[misc]
    children.append(_forked(lambda: _put_all(second, "child2")))
    _put_all(store, "parent")
    connection.send([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
    _put_all(second, "after")
    connection.send(sorted(str(message.payload) for message in store.scan("jobs")))
    connection.send(store.check().problems)
    second.close()
    store.close()


def test_an_inherited_store_works_in_parent_and_children_at_once(mongodb: MongoDB) -> None:
    codes, held, problems = Child(_use_in_both, mongodb.url, uuid4().hex).reports()
    assert codes == [0, 0, 0]
    who = ("before", "parent", "after", "child0", "child1", "child2")
    assert held == sorted(f"{one}-{n}" for one in who for n in range(PUTS))
    assert problems == ()
