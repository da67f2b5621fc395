"""Producers and consumers that work until they are killed, and report to a history."""

from __future__ import annotations

import itertools
import random
import time
from multiprocessing.connection import Connection
from typing import Any

from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle, StoredMessage
from tests.crash.history import Event
from tests.crash.stores import kill_at, open_store, watch_edges

QUEUES = ("jobs", "mail", "audit")


def name_of(message: StoredMessage) -> str:
    return f"{message.queue}/{message.payload!s}"


class Client:
    """A store that will be killed at the nth time of an edge, and a line to the history."""

    def __init__(self, connection: Connection, kind: str, path: str, ahead: float, who: str) -> None:
        self.random = random.Random(who)
        self.who = who
        self.store = open_store(kind, path, clock=lambda: time.time() + ahead)
        self._connection = connection
        edge = self.random.choice(("begun", "applied", "committed"))
        watch_edges(self.store, kill_at(edge, self.random.randint(3, 60)))

    def report(self, kind: str, names: list[str], tokens: tuple[int, ...] = ()) -> None:
        self._connection.send(Event(kind, tuple(names), tokens))

    def put(self, targets: list[tuple[str, str]], settle: list[Settle]) -> None:
        """Put messages, and settle others in the same commit."""
        names = [f"{queue}/{payload}" for queue, payload in targets]
        self.report("putting", names)
        ids = self.store.mint(len(targets))
        messages = [NewMessage(i, queue, payload) for i, (queue, payload) in zip(ids, targets, strict=True)]
        self.store.commit(Changes(enqueue=messages, settle=settle))
        self.report("put", names)


def produce(*arguments: Any) -> None:
    """Put one message, many, or one copy for each queue, until killed."""
    client = Client(*arguments)
    for n in itertools.count():
        payload = f"{client.who}-{n}"
        match client.random.randrange(3):
            case 0:
                client.report("putting", [f"jobs/{payload}"])
                client.store.put_one("jobs", payload, None)
                client.report("put", [f"jobs/{payload}"])
            case 1:
                client.put([("jobs", f"{payload}.{part}") for part in range(5)], [])
            case _:
                client.put([(queue, payload) for queue in QUEUES], [])


def consume(*arguments: Any) -> None:
    """Lease, then ack, release, dead-letter, or ack and put in one commit, until killed."""
    client = Client(*arguments)
    for n in itertools.count():
        queue = client.random.choice(QUEUES)
        messages = client.store.lease(LeaseRequest(queue, client.random.choice((1, 1, 4)), 60.0))
        if not messages:
            continue
        names = [name_of(message) for message in messages]
        client.report("leased", names, tuple(message.attempts for message in messages))
        acks = [Settle(queue, message.id, "ack", message.attempts) for message in messages]
        match client.random.randrange(6):
            case 0:
                releases = [one._replace(action="release") for one in acks]
                client.store.commit(Changes(settle=releases))
            case 1:
                client.store.commit(Changes(settle=[one._replace(action="dead-letter") for one in acks]))
            case 2:
                client.report("acking", names)
                client.put([("done", f"{client.who}-{n}.{name}") for name in names], acks)
                client.report("acked", names)
            case 3 if len(messages) == 1:
                client.report("acking", names)
                if client.store.ack_one(queue, messages[0].id, messages[0].attempts):
                    client.report("acked", names)
            case _:
                client.report("acking", names)
                client.store.commit(Changes(settle=acks))
                client.report("acked", names)
