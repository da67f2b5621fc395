"""The writer of one environment, for all stores of this process that use it.

A transaction that does not fit into the map is undone, the map grows, and it runs again: so work must have no effect
but on its transaction until it returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from localqueue.stores.group import GroupWriter, Ticket
from localqueue.stores.lmdb.errors import is_full, translate
from localqueue.stores.lmdb.keys import Txn

if TYPE_CHECKING:
    from localqueue.stores.lmdb.connection import Environment

T = TypeVar("T")

_ON_A_FULL_DISK = (0.01, 0.05, 0.2, 0.5, 1.0)  # seconds before the next try
_LOOK_FOR_THE_DEAD = 16  # commits of this process, in each of which a reader that is dead costs some pages


class Writer(GroupWriter):
    """A group of several has a nested transaction for each."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self._environment = environment
        self._transaction = 0
        self._begun = 0

    def run(self, work: Callable[[Txn, float], T], *, clock: Callable[[], float], timeout: float) -> T:
        return self._run(Ticket(lambda txn: work(txn, clock()), timeout))

    def _commit(self, group: list[Ticket[Any]]) -> None:
        """Again where the disk is full: pages that are free are somebody else's until he has read them."""
        driver = self._environment.driver
        for pause in (*_ON_A_FULL_DISK, None):
            self._transaction = 0
            try:
                while not self._fits(group):
                    self._environment.grow()
                return
            except driver.PanicError:
                self._environment.drop_handle()
                raise
            except driver.Error as error:
                if pause is None or not is_full(error) or self._has_committed():
                    raise
            for ticket in group:
                ticket.forget()
            time.sleep(pause)

    def _has_committed(self) -> bool:
        return 0 < self._transaction <= self._environment.last_transaction()

    def _translate(self, error: Exception) -> Exception:
        environment = self._environment
        return translate(error, environment.path) if isinstance(error, environment.driver.Error) else error

    def _fits(self, group: list[Ticket[Any]]) -> bool:
        """Apply and commit the group; False when the map is too small for it, and nothing has happened."""
        environment = self._environment
        environment.lock(max(ticket.timeout for ticket in group))
        try:
            txn = self._begin()
            self._transaction = txn.id()
            try:
                self._reach("begun")
                self._apply(group, txn)
                self._reach("applied")
                txn.commit()
            except BaseException as error:
                environment.abort(txn)  # after a commit this does nothing
                if not isinstance(error, environment.driver.MapFullError):
                    raise
                for ticket in group:
                    ticket.forget()
                return False
        finally:
            environment.unlock()
        self._reach("committed")
        return True

    def _begin(self) -> Any:
        self._begun += 1
        if self._begun % _LOOK_FOR_THE_DEAD == 0:
            self._environment.forget_dead_readers()
        while True:
            try:
                return self._environment.handle().begin(write=True)
            except self._environment.driver.MapResizedError:
                self._environment.adopt_size()

    def _apply(self, group: list[Ticket[Any]], txn: Any) -> None:
        if len(group) == 1:
            group[0].value = group[0].work(txn)
            return
        environment = self._environment
        for ticket in group:
            nested = environment.handle().begin(write=True, parent=txn)
            try:
                ticket.value = ticket.work(nested)
            except BaseException as error:
                environment.abort(nested)
                if isinstance(error, environment.driver.Error) or not isinstance(error, Exception):
                    raise
                ticket.error = error
            else:
                nested.commit()
