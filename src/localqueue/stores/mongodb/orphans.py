"""Transactions that were given up while the server could not be told.

A transaction is not bound to its connection. One whose abort never reached the server stays open there, and whoever
writes what it has written meets a conflict, until the server's `transactionLifetimeLimitSeconds` (a minute, unless it
is set otherwise). So the sessions of such transactions are kept from further use, and ended as soon as the server
answers again, by a thread that lives no longer than that takes.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pymongo
from pymongo.errors import InvalidOperation, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from localqueue.stores.mongodb.server import Server

_ASK_FOR = 1.0  # seconds that one try to end them may take
_PAUSE = 0.1


class Orphans:
    """The sessions whose transactions may still be open on the server."""

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
            time.sleep(_PAUSE)
