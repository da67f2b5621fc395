"""Which ready message is handed out next."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class OrderingPolicy(Protocol):
    """Names the order in which ready messages are leased.

    Order is a promise about leasing. Consumers that run side by side may finish in another order.
    """

    @property
    def guarantee(self) -> str: ...

    @property
    def ready_before_delayed(self) -> bool: ...

    @property
    def stable_for_same_timestamp(self) -> bool: ...

    @property
    def priority_before_sequence(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoReadyOrdering(Described):
    """Messages are leased in the order they became ready; ties keep enqueue order."""

    guarantee: str = "fifo-ready"
    ready_before_delayed: bool = True
    stable_for_same_timestamp: bool = True
    priority_before_sequence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityOrdering(Described):
    """Among ready messages the highest priority is leased first; equal ones keep enqueue order."""

    guarantee: str = "priority"
    ready_before_delayed: bool = True
    stable_for_same_timestamp: bool = True
    priority_before_sequence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PerKeyFifoOrdering(Described):
    """Messages with one `ordering_key` are leased one at a time, in the order they were put.

    A message waits until the one before it with the same key is settled, so a retry holds up its
    own key and no other. Messages without a key follow the ready order.
    """

    guarantee: str = "fifo-per-key"
    ready_before_delayed: bool = True
    stable_for_same_timestamp: bool = True
    priority_before_sequence: bool = False
    orders_by_key: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortOrdering(Described):
    """No order is promised."""

    guarantee: str = "best-effort"
    ready_before_delayed: bool = False
    stable_for_same_timestamp: bool = False
    priority_before_sequence: bool = False


FIFO_READY_ORDERING = FifoReadyOrdering()
