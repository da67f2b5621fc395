"""Who starts the work: the consumer that asks or the producer that calls."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class ConsumptionPolicy(Protocol):
    """Names which side starts the processing of a message."""

    @property
    def pattern(self) -> str: ...

    @property
    def consumer_requests_messages(self) -> bool: ...

    @property
    def producer_invokes_handler(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumption(Described):
    """Consumers ask for messages; a producer only stores them."""

    pattern: str = "pull"
    consumer_requests_messages: bool = True
    producer_invokes_handler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumption(Described):
    """A put wakes a consumer or calls a handler, so a dispatcher or notification must be set."""

    pattern: str = "push"
    consumer_requests_messages: bool = False
    producer_invokes_handler: bool = True


PULL_CONSUMPTION = PullConsumption()
