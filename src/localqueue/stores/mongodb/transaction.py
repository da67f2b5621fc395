"""Running work in a transaction, again when another one was in its way."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from bson.errors import BSONError
from pymongo.errors import PyMongoError

from localqueue.stores.mongodb import driver
from localqueue.stores.mongodb.server import Server

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1


class Again(Exception):
    """What the transaction has seen is out of date: it has to begin anew."""


def transact(server: Server, work: Callable[[Any], T], *, restarted: Callable[[], None] = lambda: None) -> T:
    """Run `work(session)` and commit. Nothing of it is applied when it raises.

    A transaction that met another one, or whose connection was lost before the commit, is run again until the server's
    timeout. A commit whose answer was lost is asked for again: the server knows whether it has happened.
    """
    deadline = time.monotonic() + server.timeout
    pause = _FIRST_PAUSE
    while True:
        try:
            with server.client.start_session(causal_consistency=False) as session:
                session.start_transaction(read_concern=server.snapshot, write_concern=server.safe)
                try:
                    with driver.deadline(deadline):
                        result = work(session)
                except BaseException:
                    with suppress(PyMongoError), driver.deadline(deadline):
                        if session.in_transaction:
                            session.abort_transaction()
                    raise
                _commit(session, deadline)
                return result
        except Again as error:
            if time.monotonic() >= deadline:
                raise driver.locked(server.url) from error
        except PyMongoError as error:
            if not _may_run_again(error) or time.monotonic() >= deadline:
                raise driver.translate(error, server.url) from error
        except BSONError as error:
            raise driver.translate(error, server.url) from error
        restarted()
        time.sleep(min(pause * random.uniform(0.3, 1.0), max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _may_run_again(error: Any) -> bool:
    """A duplicate that is not of a message means that two transactions were about to add the same document."""
    transient = bool(error.has_error_label("TransientTransactionError"))
    return transient or driver.is_conflict(error) or driver.code_of(error) == driver.DUPLICATE


def _commit(session: Any, deadline: float) -> None:
    while True:
        try:
            with driver.deadline(deadline):
                session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)
