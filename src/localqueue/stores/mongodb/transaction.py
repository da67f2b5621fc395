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

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
_ABORT_WITHIN = 0.5  # seconds, whatever is left of the call's own time
_ASK_FOR = 1.0  # seconds that one try to end orphans may take
_BETWEEN_TRIES = 0.1


class Again(Exception):
    """What the transaction has seen is out of date: it has to begin anew."""


def transact(server: Server, work: Callable[[Any], T]) -> T:
    """Run `work(session)` and commit. Nothing of it is applied when it raises.

    A transaction that met another one, or whose connection was lost before the commit, is run again until the server's
    timeout. A commit whose answer was lost is asked for again: the server knows whether it has happened.
    """
    deadline = time.monotonic() + server.timeout
    pause = _FIRST_PAUSE
    in_the_way: Exception | None = None
    while True:
        held = _Held(server)
        try:
            held.session.start_transaction(read_concern=server.snapshot, write_concern=server.safe)
            try:
                with errors.deadline(deadline):
                    result = work(held.session)
            except BaseException:
                held.abort()
                raise
            held.commit(deadline)
            return result
        except Again as error:
            if in_the_way is None:  # else an error of the server or of the way to it, which says more
                in_the_way = errors.locked(server.url)
                in_the_way.__cause__ = error
        except PyMongoError as error:
            in_the_way = errors.translate(error, server.url)
            in_the_way.__cause__ = error
            if not _may_run_again(error):
                raise in_the_way from error
        except BSONError as error:
            raise errors.translate(error, server.url) from error
        finally:
            held.end()
        time.sleep(min(pause * random.uniform(0.3, 1.0), max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_PAUSE)
        if time.monotonic() >= deadline:
            raise in_the_way


def _may_run_again(error: Any) -> bool:
    """A duplicate that is not of a message means that two transactions were about to add the same document."""
    transient = bool(error.has_error_label("TransientTransactionError"))
    return transient or errors.is_conflict(error) or errors.code_of(error) == errors.DUPLICATE


class _Held:
    """A session, and whether its transaction may be left open on the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.session: Any = server.client.start_session(causal_consistency=False)
        self._orphaned = False

    def abort(self) -> None:
        """Abort, within a time of its own: the call's may be used up. The driver's own abort does not tell whether the
        server has answered, so the command is sent here; the driver repeats it when the session ends."""
        self._orphaned = True
        with suppress(PyMongoError), errors.deadline(time.monotonic() + _ABORT_WITHIN):
            with suppress(OperationFailure):  # an answer, too: the server does not know the transaction any more
                send_abort(self._server, self.session)
            self._orphaned = False

    def commit(self, deadline: float) -> None:
        self._orphaned = True
        while True:
            try:
                with errors.deadline(deadline):
                    self.session.commit_transaction()
                self._orphaned = False
                return
            except PyMongoError as error:
                unknown = bool(error.has_error_label("UnknownTransactionCommitResult"))
                self._orphaned = unknown or errors.code_of(error) is None  # the server has not said what became of it
                if not unknown or time.monotonic() >= deadline:
                    raise
            time.sleep(0.01)

    def end(self) -> None:
        if self._orphaned:
            self._server.orphans.add(self.session)
        else:
            with errors.deadline(time.monotonic() + _ABORT_WITHIN):
                self.session.end_session()


def send_abort(server: Server, session: Any) -> None:
    server.client.admin.command("abortTransaction", session=session)


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
        """Try to end their transactions; whether none is left."""
        sessions = list(self._sessions)
        if sessions:
            try:
                with pymongo.timeout(_ASK_FOR):
                    self._server.client.admin.command("killSessions", [one.session_id for one in sessions])
            except (InvalidOperation, OperationFailure):
                pass  # closed, or not allowed: what the server will not end now it ends by itself
            except PyMongoError:
                return False
            with self._lock:
                self._sessions = [one for one in self._sessions if not any(one is ended for ended in sessions)]
            for one in sessions:
                one.end_session()
        return not self._sessions

    def _run(self) -> None:
        while True:
            if self.end():
                with self._lock:
                    if not self._sessions:
                        self._thread = None
                        return
            time.sleep(_BETWEEN_TRIES)
