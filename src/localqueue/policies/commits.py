"""How a handler's success, the acknowledgement and outside effects are tied together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from localqueue.policies._described import Described, class_name


class CommitPolicy(Protocol):
    """Names how a successful result is coordinated with acknowledgement and side effects."""

    @property
    def mode(self) -> str: ...

    @property
    def local_commit(self) -> bool: ...

    @property
    def coordinates_effects(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAtomicCommit(Described):
    """The final record and the acknowledgement are committed by the local store."""

    mode: str = "local-atomic"
    local_commit: bool = True
    coordinates_effects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalOutboxCommit(Described):
    """Success also leaves a durable envelope in `outbox_store` for a relay to send.

    Without a store the policy only names the model.
    """

    mode: str = "transactional-outbox"
    local_commit: bool = True
    coordinates_effects: bool = True
    outbox_store: Any | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**Described.as_dict(self), "outbox_store": class_name(self.outbox_store)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhaseCommit(Described):
    """Success is written as a prepare envelope, then as a commit envelope.

    Each phase is recorded only where its store is attached.
    """

    mode: str = "two-phase"
    local_commit: bool = False
    coordinates_effects: bool = True
    prepare_store: Any | None = None
    commit_store: Any | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            **Described.as_dict(self),
            "prepare_store": class_name(self.prepare_store),
            "commit_store": class_name(self.commit_store),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaCommit(Described):
    """Success leaves a forward envelope in `saga_store`, failure a compensating one.

    Running the compensation is the reader's work; without a store nothing is recorded.
    """

    mode: str = "saga"
    local_commit: bool = False
    coordinates_effects: bool = True
    saga_store: Any | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**Described.as_dict(self), "saga_store": class_name(self.saga_store)}


LOCAL_ATOMIC_COMMIT = LocalAtomicCommit()
TRANSACTIONAL_OUTBOX_COMMIT = TransactionalOutboxCommit()
TWO_PHASE_COMMIT = TwoPhaseCommit()
