"""A server that is shut down in order, and started again: every error on the way says that a retry is right."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.errors import QueueStoreLockedError, QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, RecordWrite, Settle
from tests.faults.ways import own_server
from tests.stores import SERVERS, on_server
from tests.unit.worker_steps import eventually

pytestmark = [pytest.mark.crash, pytest.mark.slow]

RESTARTS = 3


class Client:
    """A thread that does one thing again and again; what it was told other than that the server is away is kept."""

    def __init__(self, call: Callable[[int], object]) -> None:
        self.done = self.failed = 0
        self.strange: list[BaseException] = []
        self._call = call
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for n in itertools.count():
            if self._stop.is_set():
                return
            try:
                self._call(n)
                self.done += 1
            except (QueueStoreUnavailableError, QueueStoreLockedError):
                self.failed += 1
                self._stop.wait(0.01)
            except BaseException as error:
                self.strange.append(error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("kind", SERVERS)
def test_during_a_restart_every_error_says_that_a_retry_is_right(kind: str) -> None:
    server = own_server(kind)
    place = on_server(server)
    store: Any = place.open()

    def put_keyed(n: int) -> None:
        message = NewMessage(store.mint()[0], "keyed", "x", ordering_key=str(n % 3), run_id="run")
        store.commit(Changes(enqueue=[message], records=[RecordWrite("kind", str(n % 5), b"v")]))

    def consume(n: int) -> None:
        for one in store.lease(LeaseRequest("jobs", 2, 600.0, "worker")):
            store.commit(Changes(settle=[Settle("jobs", one.id, "ack", one.attempts)], strict=False))

    def look(n: int) -> None:
        store.stats("jobs"), store.scan("jobs", limit=3), store.run("run"), store.records("kind")

    def open_again(n: int) -> None:
        place.open().close()

    calls = (lambda n: store.put_one("jobs", "x", None), put_keyed, consume, look, open_again)
    clients = [Client(call) for call in calls]
    try:
        for _ in range(RESTARTS):
            before = [one.done for one in clients]
            eventually(lambda before=before: all(one.done > was for one, was in zip(clients, before, strict=True)))
            server.shut_down()
            server.start()
        before = [one.done for one in clients]
        eventually(lambda: all(one.done > was for one, was in zip(clients, before, strict=True)))
    finally:
        for one in clients:
            one.stop()
        store.close()
    assert [repr(error) for one in clients for error in one.strange] == []
