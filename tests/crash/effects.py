"""Work with effects in other places, for workers that get killed: what they did is in files that outlive them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from localqueue import PersistentQueue, Worker, current_job
from localqueue.idempotency import SQLiteIdempotencyStore
from localqueue.policies import (
    EffectivelyOnceDelivery,
    ReturnStoredResult,
    SagaCommit,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
)
from localqueue.workers import OutboxRelay
from tests.crash.stores import die, kill_at, open_store, watch_edges

VALUES = (0, 1, 2)
STEPS = ("flight", "hotel", "car")


class Log:
    """Lines that are on the disk when `write` returns. Kills this process before or after the nth half line."""

    def __init__(self, path: str, kill_at: int | None = None) -> None:
        self._file = os.open(f"{path}.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._kill_at = kill_at
        self._points = 0

    def write(self, line: str) -> None:
        self._point()
        os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)
        self._point()

    def _point(self) -> None:
        self._points += 1
        if self._points == self._kill_at:
            die()


def lines(path: str) -> list[str]:
    try:
        with open(f"{path}.log") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


class Bank:
    """A participant of a two-phase commit that keeps its books in a database of its own."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log = f"{path}.bank", log

    def prepare(self, txid: str, envelope: dict[str, Any]) -> None:
        self._do("prepare", "INSERT INTO transfers VALUES (?, ?, 'prepared')", txid, envelope["result"])

    def commit(self, txid: str) -> None:
        self._do("commit", "UPDATE transfers SET state = 'committed' WHERE txid = ?", txid)

    def rollback(self, txid: str) -> None:
        self._do("rollback", "DELETE FROM transfers WHERE txid = ? AND state = 'prepared'", txid)

    def transfers(self) -> list[tuple[int, str]]:
        with self._books() as books:
            return list(books.execute("SELECT value, state FROM transfers ORDER BY value"))

    def _do(self, what: str, statement: str, *parameters: Any) -> None:
        self._log.write(f"{what}?")
        with self._books() as books:
            books.execute(statement, parameters)
        self._log.write(what)

    @contextlib.contextmanager
    def _books(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as books:
            books.execute("CREATE TABLE IF NOT EXISTS transfers (txid TEXT PRIMARY KEY, value INTEGER, state TEXT)")
            yield books


class Scene:
    """A queue with a commit policy and the handler for it, on an open store."""

    max_tries = 5

    def __init__(self, store: Any, path: str, log: Log) -> None:
        self.store, self.path, self.log = store, path, log
        self.after: PersistentQueue[Any] = PersistentQueue("after", store=store)
        self.queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=self.delivery())

    def delivery(self) -> EffectivelyOnceDelivery:
        return EffectivelyOnceDelivery(result_policy=ReturnStoredResult())

    def handle(self, value: int) -> int:
        self.log.write(f"handle {value}")
        current_job().put(value, to=self.after)
        return value

    def run(self) -> None:
        Worker(self.queue, self.handle, max_tries=self.max_tries).run_until_empty(signals=False)

    def close(self) -> None:
        """Whatever is open beside the store."""


class ExternalLedger(Scene):
    def delivery(self) -> EffectivelyOnceDelivery:
        self.ledger = SQLiteIdempotencyStore(f"{self.path}.ledger")
        return EffectivelyOnceDelivery(idempotency_store=self.ledger, result_policy=ReturnStoredResult())

    def close(self) -> None:
        self.ledger.close()


class Outbox(Scene):
    def delivery(self) -> EffectivelyOnceDelivery:
        return EffectivelyOnceDelivery(commit_policy=TransactionalOutboxCommit())

    def run(self) -> None:
        super().run()
        OutboxRelay(self.queue, lambda envelope: self.log.write(f"sent {envelope['result']}")).run_until_empty(
            signals=False
        )


class TwoPhase(Scene):
    def delivery(self) -> EffectivelyOnceDelivery:
        self.bank = Bank(self.path, self.log)
        return EffectivelyOnceDelivery(commit_policy=TwoPhaseCommit(participants=(self.bank,)))


class FailingSaga(Scene):
    """Takes all its steps and then fails for good."""

    max_tries = 1

    def delivery(self) -> EffectivelyOnceDelivery:
        return EffectivelyOnceDelivery(commit_policy=SagaCommit(compensations={n: self._undo(n) for n in STEPS}))

    def _undo(self, name: str) -> Callable[[Any, Any], None]:
        return lambda value, result: self.log.write(f"undo {value} {name}")

    def handle(self, value: int) -> int:
        for name in STEPS:
            current_job().step(name, self.log.write, f"do {value} {name}")
        raise ValueError("the trip is off")


class KeptResults(Scene):
    """Delivers at least once, and keeps what the handler returned."""

    def __init__(self, store: Any, path: str, log: Log) -> None:
        super().__init__(store, path, log)
        self.queue = PersistentQueue("jobs", store=store, keep_results=7 * 86400)


SCENES: dict[str, type[Scene]] = {
    "follow-ups": Scene,
    "external-ledger": ExternalLedger,
    "outbox": Outbox,
    "two-phase": TwoPhase,
    "saga": FailingSaga,
    "results": KeptResults,
}


def play(connection: Connection, kind: str, path: str, name: str, at: str, nth: int) -> None:
    """Work until everything is done, or die at the nth edge of a commit, or at the nth point around an effect."""
    store = open_store(kind, path)
    scene = SCENES[name](store, path, Log(path, nth if at == "effect" else None))
    if at != "effect":
        watch_edges(store, kill_at(at, nth))
    scene.run()
    connection.send("done")


def post(connection: Connection, kind: str, path: str, ahead: float, at: str, nth: int) -> None:
    """Turn transfers into postings until there are none, or die at the nth edge."""
    store = open_store(kind, path, clock=lambda: time.time() + ahead)
    watch_edges(store, kill_at(at, nth))
    Worker(transfers(store), posting_handler(store), concurrency=2, prefetch=4, max_tries=50).run_until_empty(
        signals=False
    )


def transfers(store: Any) -> PersistentQueue[Any]:
    return PersistentQueue("transfers", store=store, delivery_policy=EffectivelyOnceDelivery())


def posting_handler(store: Any) -> Callable[[Any], None]:
    postings: PersistentQueue[Any] = PersistentQueue("postings", store=store)

    def handle(transfer: dict[str, Any]) -> None:
        for account, sign in ((transfer["to"], 1), (transfer["from"], -1)):
            current_job().put({"account": account, "amount": sign * transfer["amount"]}, to=postings)

    return handle
