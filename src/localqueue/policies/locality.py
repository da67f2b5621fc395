"""Where queue state lives relative to the process that uses it."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


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

    This names the boundary and does nothing else: reaching a remote queue takes a store that
    talks to one, and no coordination between hosts follows from the name.
    """

    locality: str = "remote"
    co_located_state: bool = False
    crosses_network_boundary: bool = True


LOCAL_QUEUE_PLACEMENT = LocalQueuePlacement()
