"""The grouping of commits of one environment.

Threads that want to write hang up a ticket and take the lock. Whoever gets it runs every ticket that is waiting, each
in its own nested transaction, and commits once: with `durability="power"` that is one fsync for all of them. The
others find their ticket done.

A transaction that does not fit into the map is undone, the map grows, and it runs again: so work must have no effect
but on its transaction until it returns.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from localqueue.stores.lmdb.errors import translate
from localqueue.stores.lmdb.keys import Txn

if TYPE_CHECKING:
    from localqueue.stores.lmdb.connection import Environment

T = TypeVar("T")
Work = Callable[[Txn, float], T]

_MOST_IN_A_GROUP = 128


class _Ticket(Generic[T]):
    __slots__ = ("clock", "done", "error", "timeout", "value", "work")

    def __init__(self, work: Work[T], clock: Callable[[], float], timeout: float) -> None:
        self.work = work
        self.clock = clock
        self.timeout = timeout
        self.done = False
        self.error: BaseException | None = None
        self.value: T | None = None


class Writer:
    """Runs work in write transactions: all of one piece of work is applied, or nothing of it."""

    def __init__(self, environment: Environment) -> None:
        self.lock = threading.Lock()
        self.leader: int | None = None  # the thread that is inside a transaction
        self.on_edge: Callable[[str], None] | None = None
        self._environment = environment
        self._waiting: deque[_Ticket[Any]] = deque()
        self._transaction = 0

    def run(self, work: Work[T], *, clock: Callable[[], float], timeout: float) -> T:
        ticket: _Ticket[T] = _Ticket(work, clock, timeout)
        try:
            self._waiting.append(ticket)
            with self.lock:
                if not ticket.done:
                    self.leader = threading.get_ident()
                    try:
                        self._lead(ticket)
                    finally:
                        self.leader = None
        except BaseException:
            with suppress(ValueError):  # nobody may run it any more
                self._waiting.remove(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        return cast("T", ticket.value)

    def _lead(self, mine: _Ticket[Any]) -> None:
        group: list[_Ticket[Any]] = []
        while self._waiting and len(group) < _MOST_IN_A_GROUP:
            group.append(self._waiting.popleft())
        environment = self._environment
        self._transaction = 0
        try:
            while not self._fits(group):
                environment.grow()
        except Exception as error:
            failure = translate(error, environment.path) if isinstance(error, environment.driver.Error) else error
            if isinstance(error, environment.driver.PanicError):
                environment.drop_handle()
            for ticket in group:
                ticket.error = ticket.error or failure
        except BaseException:
            # An interrupt is this thread's alone: the others run their work again, unless the commit took effect.
            if not self._transaction or environment.last_transaction() < self._transaction:
                others = [ticket for ticket in group if ticket is not mine]
                for ticket in others:
                    ticket.error = ticket.value = None
                self._waiting.extendleft(reversed(others))
                group = [mine]
            raise
        finally:
            for ticket in group:
                ticket.done = True

    def _fits(self, group: list[_Ticket[Any]]) -> bool:
        """Apply and commit the group; False when the map is too small for it, and nothing has happened."""
        environment = self._environment
        environment.lock(max(ticket.timeout for ticket in group))
        try:
            txn = self._begin()
            self._transaction = txn.id()
            try:
                self._apply(group, txn)
                txn.commit()
            except environment.driver.MapFullError:
                environment.abort(txn)
                for ticket in group:
                    ticket.error = ticket.value = None
                return False
            except BaseException:
                environment.abort(txn)  # after a commit this does nothing
                raise
        finally:
            environment.unlock()
        if self.on_edge is not None:
            self.on_edge("committed")
        return True

    def _begin(self) -> Any:
        while True:
            try:
                return self._environment.handle().begin(write=True)
            except self._environment.driver.MapResizedError:
                self._environment.adopt_size()

    def _apply(self, group: list[_Ticket[Any]], txn: Any) -> None:
        edge = self.on_edge
        if edge is not None:
            edge("begun")
        if len(group) == 1:
            group[0].value = group[0].work(txn, group[0].clock())
        else:
            for ticket in group:
                self._apply_nested(ticket, txn)
        if edge is not None:
            edge("applied")

    def _apply_nested(self, ticket: _Ticket[Any], txn: Any) -> None:
        nested = self._environment.handle().begin(write=True, parent=txn)
        try:
            ticket.value = ticket.work(nested, ticket.clock())
        except self._environment.driver.Error:
            self._environment.abort(nested)
            raise
        except Exception as error:
            ticket.error = error
            self._environment.abort(nested)
        except BaseException:
            self._environment.abort(nested)
            raise
        else:
            nested.commit()
