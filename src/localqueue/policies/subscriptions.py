"""Who receives a copy of a published message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from localqueue._dataclass import KW_ONLY, dataclass
from localqueue.policies._described import Described


class SubscriptionPolicy(Protocol):
    """Names the subscribers of a queue, if it has any."""

    @property
    def subscriptions(self) -> bool: ...

    @property
    def fanout(self) -> bool: ...

    @property
    def subscribers(self) -> tuple[str, ...]: ...

    def as_dict(self) -> dict[str, Any]: ...


def subscriber_queue_name(queue_name: str, subscriber: str) -> str:
    """Return the name of the physical queue that holds one subscriber's copies."""
    if not subscriber:
        raise ValueError("subscriber cannot be empty")
    return f"{queue_name}.{subscriber}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSubscriptions(Described):
    """No named subscribers and no fan-out."""

    subscriptions: bool = False
    fanout: bool = False
    subscriber_count: int = 0

    @property
    def subscribers(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class StaticFanoutSubscriptions(Described):
    """A fixed set of subscribers; every publish reaches all of them, in the order given."""

    subscribers: tuple[str, ...]
    _: KW_ONLY
    subscriptions: bool = True
    fanout: bool = True

    def __post_init__(self) -> None:
        names = _subscriber_names(self.subscribers)
        if not names:
            raise ValueError("subscribers cannot be empty")
        object.__setattr__(self, "subscribers", names)

    @property
    def subscriber_count(self) -> int:
        return len(self.subscribers)

    def as_dict(self) -> dict[str, Any]:
        return {
            "subscriptions": self.subscriptions,
            "fanout": self.fanout,
            "subscriber_count": self.subscriber_count,
            "subscribers": list(self.subscribers),
        }


@dataclass(frozen=True, slots=True)
class StoredSubscriptions(Described):
    """Subscribers are kept in the store and can join or leave while the queue runs.

    `subscribers` names those that are always there. A publish reaches the subscribers the store
    knows at that moment; one that joins later does not receive earlier messages.
    """

    subscribers: tuple[str, ...] = ()
    _: KW_ONLY
    subscriptions: bool = True
    fanout: bool = True
    dynamic: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "subscribers", _subscriber_names(self.subscribers))

    def as_dict(self) -> dict[str, Any]:
        return {
            "subscriptions": self.subscriptions,
            "fanout": self.fanout,
            "dynamic": self.dynamic,
            "subscribers": list(self.subscribers),
        }


def _subscriber_names(subscribers: Iterable[str]) -> tuple[str, ...]:
    if isinstance(subscribers, str | bytes):
        raise TypeError(f"subscribers must be a tuple of names, got {subscribers!r}; pass ({subscribers!r},)")
    names = tuple(subscribers)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"subscriber names must be strings, got {name!r}")
        if not name:
            raise ValueError("subscriber names cannot be empty")
        if ":" in name:
            raise ValueError(f"subscriber names cannot contain ':', got {name!r}")
    if len(set(names)) != len(names):
        raise ValueError("subscriber names must be unique")
    return names


NO_SUBSCRIPTIONS = NoSubscriptions()
