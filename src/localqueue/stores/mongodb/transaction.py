"""Running work in a transaction, again when another one was in its way."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pymongo
from bson.errors import BSONError
from pymongo.errors import InvalidOperation, OperationFailure, PyMongoError

from localqueue.stores.mongodb import errors

if TYPE_CHECKING:
    from localqueue.stores.mongodb.connection import Server

T = TypeVar("T")

APP_NAME = "localqueue"

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
_ABORT_WITHIN = 0.5  # seconds, whatever is left of the call's own time
_ASK_FOR = 1.0  # seconds that one try to end orphans may take
_BETWEEN_TRIES = 0.1
_PATIENCE = 1.0  # seconds that others may be in the way before somebody looks whether they are alive
_IDLE = 3.0  # seconds in which a client that is alive says something to its transaction


class Again(Exception):
    """What the transaction has seen is out of date: it has to begin anew."""


def transact(server: Server, work: Callable[[Any], T]) -> T:
    """Run `work(session)` and commit. Nothing of it is applied when it raises.

    A transaction that met another one, or whose connection was lost before the commit, is run again until the server's
    timeout. A commit whose answer was lost is asked for again: the server knows whether it has happened.
    """
    deadline = time.monotonic() + server.timeout
    look_at = time.monotonic() + _PATIENCE
    pause = _FIRST_PAUSE
    in_the_way: Exception | None = None
    while True:
        try:
            return _run(server, work, deadline)
        except Again:
            in_the_way = in_the_way or errors.locked(server.url)  # an error of the server or of the way to it says more
        except (PyMongoError, BSONError) as error:
            in_the_way = errors.translate(error, server.address)
            in_the_way.__cause__ = error
            if not _may_run_again(error):
                raise in_the_way from error
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + _PATIENCE
            end_idle_transactions(server)
        time.sleep(min(pause * random.uniform(0.3, 1.0), max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_PAUSE)
        if time.monotonic() >= deadline:
            raise in_the_way


def end_idle_transactions(server: Server) -> None:
    """End transactions of localqueue that nobody has gone on with for some seconds: their clients are gone, and what
    they wrote would be in everybody's way until the server gives them up. One that was only slow begins anew."""
    idle: list[dict[str, Any]] = [
        {"$currentOp": {"allUsers": False, "idleSessions": True}},
        {"$match": {"appName": APP_NAME, "active": False, "transaction.timeInactiveMicros": {"$gt": _IDLE * 1e6}}},
        {"$project": {"lsid": 1}},
    ]
    with suppress(PyMongoError), pymongo.timeout(_ASK_FOR):
        found = [{"id": one["lsid"]["id"]} for one in server.client.admin.aggregate(idle)]
        if found:
            server.client.admin.command("killSessions", found)


def _may_run_again(error: Exception) -> bool:
    """A duplicate that is not of a message means that two transactions were about to add the same document."""
    transient = isinstance(error, PyMongoError) and error.has_error_label("TransientTransactionError")
    return transient or errors.is_conflict(error) or errors.code_of(error) == errors.DUPLICATE


def _run(server: Server, work: Callable[[Any], T], deadline: float) -> T:
    """One try. The session of a transaction that may be left open on the server is an orphan."""
    session = server.client.start_session(causal_consistency=False)
    ended = False
    try:
        session.start_transaction(read_concern=server.snapshot, write_concern=server.safe)
        try:
            with errors.deadline(deadline):
                result = work(session)
        except BaseException:
            ended = _abort(server, session)
            raise
        try:
            _commit(session, deadline)
        except PyMongoError as error:
            ended = not _is_unknown(error) and errors.code_of(error) is not None
            raise
        ended = True
        return result
    finally:
        if ended:
            with errors.deadline(time.monotonic() + _ABORT_WITHIN):
                session.end_session()
        else:
            server.orphans.add(session)


def _abort(server: Server, session: Any) -> bool:
    """Whether the server has answered, within a time of its own: the call's may be used up. The driver's own abort does
    not tell, so the command is sent here; the driver repeats it when the session ends."""
    try:
        with errors.deadline(time.monotonic() + _ABORT_WITHIN):
            send_abort(server, session)
    except OperationFailure:
        pass  # an answer, too: the server does not know the transaction any more
    except PyMongoError:
        return False
    return True


def send_abort(server: Server, session: Any) -> None:
    server.client.admin.command("abortTransaction", session=session)


def _commit(session: Any, deadline: float) -> None:
    while True:
        try:
            with errors.deadline(deadline):
                session.commit_transaction()
            return
        except PyMongoError as error:
            if not _is_unknown(error) or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def _is_unknown(error: PyMongoError) -> bool:
    """Whether a commit may or may not have happened."""
    return bool(error.has_error_label("UnknownTransactionCommitResult"))


class Orphans:
    """The sessions of transactions that were given up while the server could not be told.

    A transaction is not bound to its connection. One whose abort never reached the server stays open there, and whoever
    writes what it has written meets a conflict, until the server's `transactionLifetimeLimitSeconds` (a minute, unless
    it is set otherwise). So the sessions of such transactions are kept from further use, and ended as soon as the
    server answers again, by a thread that lives no longer than that takes.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._sessions: list[Any] = []
        self._thread: threading.Thread | None = None

    def add(self, session: Any) -> None:
        with self._lock:
            self._sessions.append(session)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="localqueue-orphans", daemon=True)
                self._thread.start()

    def end(self) -> bool:
        """Try to end their transactions; whether the server answers."""
        with self._lock:
            sessions, self._sessions = self._sessions, []
        if sessions:
            try:
                with pymongo.timeout(_ASK_FOR):
                    self._server.client.admin.command("killSessions", [one.session_id for one in sessions])
            except (InvalidOperation, OperationFailure):
                pass  # closed, or not allowed: what the server will not end now it ends by itself
            except PyMongoError:
                with self._lock:
                    self._sessions += sessions
                return False
            for one in sessions:
                with suppress(PyMongoError), pymongo.timeout(_ASK_FOR):  # the client may be closed by now
                    one.end_session()
        return True

    def _run(self) -> None:
        while True:
            if self.end():
                with self._lock:
                    if not self._sessions:
                        self._thread = None
                        return
            time.sleep(_BETWEEN_TRIES)
