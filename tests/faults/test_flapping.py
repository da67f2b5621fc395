"""A network that breaks every few round trips: workers and producers get through, and nothing is lost or doubled."""

from __future__ import annotations

import random
import threading

import pytest

from localqueue import PersistentQueue
from localqueue.errors import QueueStoreUnavailableError
from tests.faults.crews import at_work
from tests.faults.proxy import Proxy
from tests.faults.ways import through
from tests.stores import SERVERS, on_server, shared
from tests.unit.worker_steps import eventually

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", SERVERS)
def test_workers_settle_every_message_once_whatever_is_cut(kind: str) -> None:
    server, free = shared(SERVERS[kind]), threading.Event()
    free.set()
    place = on_server(server)
    with Proxy(server.port) as proxy, through(place, proxy.port).open(timeout=5.0) as store, place.open() as witness:
        with at_work(store, witness, free) as crews:
            proxy.flap(random.Random(kind), 10, 40)
            eventually(lambda: all(witness.stats(crew.name).total == 0 for crew in crews))
            assert proxy.has_cut
            proxy.mend()
        for crew in crews:
            crew.assert_settled_once()
        assert witness.check().problems == ()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_put_with_a_key_that_is_tried_until_it_is_confirmed_is_stored_once(kind: str) -> None:
    server = shared(SERVERS[kind])
    place = on_server(server)
    failures = 0
    with Proxy(server.port) as proxy, through(place, proxy.port).open(timeout=5.0) as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
        proxy.flap(random.Random(kind), 2, 12)
        for n in range(100):
            for _ in range(20):
                try:
                    queue.put(n, dedupe_key=str(n))
                    break
                except QueueStoreUnavailableError:
                    failures += 1
            else:
                raise AssertionError(f"{n} was never confirmed")
        assert proxy.has_cut
        proxy.mend()
        print(f"{kind}: {failures} puts failed and were tried again")
        assert [message.value for message in queue.messages()] == list(range(100))
        assert store.check().problems == ()
