"""Whether a message goes to one consumer or to every subscriber."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class RoutingPolicy(Protocol):
    """Names how many independent receivers a message has."""

    @property
    def pattern(self) -> str: ...

    @property
    def single_consumer_per_message(self) -> bool: ...

    @property
    def fanout(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PointToPointRouting(Described):
    """Consumers compete: each message is leased to one of them at a time."""

    pattern: str = "point-to-point"
    single_consumer_per_message: bool = True
    fanout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSubscribeRouting(Described):
    """Each subscriber gets its own durable copy, with its own lease, retries and dead letters."""

    pattern: str = "publish-subscribe"
    single_consumer_per_message: bool = False
    fanout: bool = True


POINT_TO_POINT_ROUTING = PointToPointRouting()
