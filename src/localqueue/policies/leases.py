"""How long a consumer may hold a message before somebody else gets it."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import KW_ONLY, dataclass
from localqueue.policies._described import Described
from localqueue.policies._limits import require_seconds


class LeasePolicy(Protocol):
    """Names how a message is held while it is being processed."""

    @property
    def timeout(self) -> float: ...

    @property
    def uses_leases(self) -> bool: ...

    @property
    def expires_inflight(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class FixedLeaseTimeout(Described):
    """An inflight message may be redelivered `timeout` seconds after it was leased or renewed."""

    timeout: float = 30.0
    _: KW_ONLY
    uses_leases: bool = True
    expires_inflight: bool = True

    def __post_init__(self) -> None:
        if require_seconds("lease timeout", self.timeout) <= 0:
            raise ValueError("lease timeout must be greater than zero")

    def as_dict(self) -> dict[str, Any]:
        return {"type": "fixed-timeout", **Described.as_dict(self)}


FIXED_LEASE_TIMEOUT = FixedLeaseTimeout()
