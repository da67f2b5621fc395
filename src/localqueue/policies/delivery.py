"""How often a message may reach a handler."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described, class_name
from localqueue.policies.commits import LOCAL_ATOMIC_COMMIT, CommitPolicy
from localqueue.policies.results import NO_RESULT_POLICY, ResultPolicy


class DeliveryPolicy(Protocol):
    """Names when a message is acknowledged and whether it comes back."""

    @property
    def guarantee(self) -> str: ...

    @property
    def ack_timing(self) -> str: ...

    @property
    def uses_leases(self) -> bool: ...

    @property
    def redelivers_expired_leases(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeastOnceDelivery(Described):
    """A message is handed out until somebody acknowledges it, so a handler may see it twice."""

    guarantee: str = "at-least-once"
    ack_timing: str = "after-success"
    uses_leases: bool = True
    redelivers_expired_leases: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMostOnceDelivery(Described):
    """A message is removed before it is handed out: it may be lost, never delivered twice."""

    guarantee: str = "at-most-once"
    ack_timing: str = "before-delivery"
    uses_leases: bool = False
    redelivers_expired_leases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivelyOnceDelivery(Described):
    """At-least-once delivery whose duplicates are recognised by a required `dedupe_key`.

    The queue itself merges a put with the live message that has its key. `idempotency_store` names the ledger by
    which a worker recognises work that already succeeded.
    """

    guarantee: str = "effectively-once"
    ack_timing: str = "after-success"
    uses_leases: bool = True
    redelivers_expired_leases: bool = True
    requires_dedupe_key: bool = True
    idempotency_store: Any | None = None
    result_policy: ResultPolicy = NO_RESULT_POLICY
    commit_policy: CommitPolicy = LOCAL_ATOMIC_COMMIT

    def as_dict(self) -> dict[str, Any]:
        return {
            **Described.as_dict(self),
            "idempotency_store": class_name(self.idempotency_store),
            "result_policy": self.result_policy.as_dict(),
            "commit_policy": self.commit_policy.as_dict(),
        }


AT_LEAST_ONCE_DELIVERY = AtLeastOnceDelivery()
