"""A server that is killed while it commits, and started again: what was confirmed is there, nothing is torn.

Threads put, lease and settle on one store while its server is killed again and again at moments nobody chose. The same
store goes on each time, and in the end it agrees with everything that was confirmed to the threads.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.crash.clients import QUEUES, name_of
from tests.crash.history import Event, Verdict, judge
from tests.faults.ways import own_server
from tests.stores import SERVERS, on_server

pytestmark = [pytest.mark.crash, pytest.mark.slow]

KILLS = 3
PATIENCE = 30.0


class Clients:
    """Two threads that put and two that consume, and what they know to have happened."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.events: list[Event] = []
        self.strange: list[BaseException] = []
        self.done = [0, 0, 0, 0]  # calls that returned, by thread
        self.failed = 0
        self._stop = threading.Event()
        works = (self.produce, self.consume, self.produce, self.consume)
        self._threads = [threading.Thread(target=self._run, args=(n, work)) for n, work in enumerate(works)]

    def _run(self, who: int, work: Callable[[str, random.Random], None]) -> None:
        chance = random.Random(who)
        for n in itertools.count():
            if self._stop.is_set():
                return
            try:
                work(f"{who}-{n}", chance)
                self.done[who] += 1
            except QueueStoreUnavailableError:
                self.failed += 1
                self._stop.wait(0.02)
            except BaseException as error:
                self.strange.append(error)
                return

    def produce(self, payload: str, chance: random.Random) -> None:
        match chance.randrange(3):
            case 0:
                self._report("putting", [f"jobs/{payload}"])
                self.store.put_one("jobs", payload, None)
                self._report("put", [f"jobs/{payload}"])
            case 1:
                payloads = [f"{payload}.{part}" for part in range(5)]
                self._report("putting", [f"jobs/{one}" for one in payloads])
                self.store.put_batch("jobs", payloads, None)
                self._report("put", [f"jobs/{one}" for one in payloads])
            case _:
                self._put([(queue, payload) for queue in QUEUES], [])

    def consume(self, payload: str, chance: random.Random) -> None:
        queue = chance.choice(QUEUES)
        messages = self.store.lease(LeaseRequest(queue, chance.choice((1, 1, 4)), 600.0))
        if not messages:
            return
        names = [name_of(message) for message in messages]
        self._report("leased", names, tuple(message.attempts for message in messages))
        acks = [Settle(queue, message.id, "ack", message.attempts) for message in messages]
        self._report("acking", names)
        match chance.randrange(3):
            case 0 if len(acks) == 1:
                if not self.store.ack_one(queue, messages[0].id, messages[0].attempts):
                    return
            case 1:
                self._put([("done", f"{payload}.{name}") for name in names], acks)
            case _:
                self.store.commit(Changes(settle=acks))
        self._report("acked", names)

    def _put(self, targets: list[tuple[str, str]], settle: list[Settle]) -> None:
        names = [f"{queue}/{payload}" for queue, payload in targets]
        self._report("putting", names)
        ids = self.store.mint(len(targets))
        messages = [NewMessage(i, queue, payload) for i, (queue, payload) in zip(ids, targets, strict=True)]
        self.store.commit(Changes(enqueue=messages, settle=settle))
        self._report("put", names)

    def _report(self, kind: str, names: list[str], tokens: tuple[int, ...] = ()) -> None:
        self.events.append(Event(kind, tuple(names), tokens))

    def wait_for_progress(self) -> None:
        """Until every thread has had answers again."""
        goal = [count + 5 for count in self.done]
        deadline = time.monotonic() + PATIENCE
        while any(count < wanted for count, wanted in zip(self.done, goal, strict=True)):
            assert not self.strange, f"not an error of this package: {self.strange[0]!r}"
            assert time.monotonic() < deadline, f"the store does not go on: {self.done} of {goal}"
            time.sleep(0.005)

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_killed_while_it_commits_keeps_what_it_confirmed_and_tears_nothing(kind: str) -> None:
    server, chance = own_server(kind), random.Random(kind)
    with on_server(server).open(timeout=5.0) as store:
        with Clients(store) as clients:
            for _ in range(KILLS):
                clients.wait_for_progress()
                threading.Event().wait(chance.uniform(0.0, 0.05))  # some moment
                server.kill()
                server.start()
                clients.wait_for_progress()
        if clients.strange:
            raise clients.strange[0]
        print(f"{kind}: {clients.failed} calls failed")  # none where the store can tell that trying again is safe
        held = [name_of(message) for queue in (*QUEUES, "done") for message in store.scan(queue)]
        assert judge(clients.events, held) == Verdict()
        assert store.check().problems == ()
    assert {event.kind for event in clients.events} == {"putting", "put", "leased", "acking", "acked"}
