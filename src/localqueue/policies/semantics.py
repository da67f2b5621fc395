"""The whole contract of a queue in one printable object."""

from __future__ import annotations

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSemantics(Described):
    """Describes what a configuration promises; the constructor refuses one that disagrees."""

    locality: str = "local"
    delivery: str = "at-least-once"
    routing: str = "point-to-point"
    consumption: str = "pull"
    ordering: str = "fifo-ready"
    leases: bool = True
    acknowledgements: bool = True
    dead_letters: bool = True
    deduplication: bool = True
    subscriptions: bool = False
    notifications: bool = False


LOCAL_AT_LEAST_ONCE = QueueSemantics()
