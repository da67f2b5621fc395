"""Where queue state lives relative to the process that uses it."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass, field
from localqueue.policies._described import Described, class_name


class LocalityPolicy(Protocol):
    """Names where queue state lives."""

    @property
    def locality(self) -> str: ...

    @property
    def co_located_state(self) -> bool: ...

    @property
    def crosses_network_boundary(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueuePlacement(Described):
    """State lives on this host; using the queue crosses no network."""

    locality: str = "local"
    co_located_state: bool = True
    crosses_network_boundary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteQueuePlacement(Described):
    """State lives behind a network boundary.

    By itself this names the boundary and does nothing else: reaching a remote queue takes a store or broker that talks
    to one. With `target`, an open broker or store or the address of one, it also says where the messages of a queue
    that is kept here belong, under the name `queue` if that is another: `localqueue.bridges.Bridge.of(queue)` carries
    them there.
    """

    locality: str = "remote"
    co_located_state: bool = False
    crosses_network_boundary: bool = True
    target: Any = field(default=None, repr=False)
    queue: str | None = None

    def as_dict(self) -> dict[str, Any]:
        printed: dict[str, Any] = {
            "locality": self.locality,
            "co_located_state": self.co_located_state,
            "crosses_network_boundary": self.crosses_network_boundary,
        }
        if self.target is not None:
            kind = self.target.partition(":")[0] if isinstance(self.target, str) else class_name(self.target)
            printed.update(target=kind, queue=self.queue)
        return printed


LOCAL_QUEUE_PLACEMENT = LocalQueuePlacement()
