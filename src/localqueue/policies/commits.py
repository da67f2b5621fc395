"""How a handler's success, the acknowledgement and outside effects are tied together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from localqueue._dataclass import dataclass, field
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


class Participant(Protocol):
    """Another system that takes part in a two-phase commit. `commit` and `rollback` must be safe to repeat."""

    def prepare(self, txid: str, envelope: dict[str, Any]) -> object: ...

    def commit(self, txid: str) -> object: ...

    def rollback(self, txid: str) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAtomicCommit(Described):
    """The final record and the acknowledgement are committed by the local store."""

    mode: str = "local-atomic"
    local_commit: bool = True
    coordinates_effects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalOutboxCommit(Described):
    """Success also leaves a durable envelope for an `OutboxRelay` to send on.

    Without `outbox_store` the outbox is the queue `<name>.outbox` of the same store, written by the transaction that
    acks the message. In a store of its own it is written before the ack.
    """

    mode: str = "transactional-outbox"
    local_commit: bool = True
    coordinates_effects: bool = True
    outbox_store: Any | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**Described.as_dict(self), "outbox_store": class_name(self.outbox_store)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhaseCommit(Described):
    """Success is committed together with `participants`: all of them, or none.

    Each is asked to `prepare(txid, envelope)`; one that raises has everybody rolled back and the message fails. When
    all have prepared, the ack is the decision, and each is told to `commit(txid)`. Decisions are kept in the queue's
    store, so a crash is recovered by the next worker: a participant may be told `commit` or `rollback` more than once.
    `prepare_store` and `commit_store` also get an envelope of each phase.
    """

    mode: str = "two-phase"
    local_commit: bool = False
    coordinates_effects: bool = True
    prepare_store: Any | None = None
    commit_store: Any | None = None
    participants: tuple[Participant, ...] = ()

    def __post_init__(self) -> None:
        for participant in self.participants:
            for method in ("prepare", "commit", "rollback"):
                if not callable(getattr(participant, method, None)):
                    raise TypeError(
                        f"a participant needs prepare, commit and rollback; {participant!r} has no {method}"
                    )
        object.__setattr__(self, "participants", tuple(self.participants))

    def as_dict(self) -> dict[str, Any]:
        described = {
            **Described.as_dict(self),
            "prepare_store": class_name(self.prepare_store),
            "commit_store": class_name(self.commit_store),
            "participants": [class_name(participant) for participant in self.participants],
        }
        return described if self.participants else _without(described, "participants")


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaCommit(Described):
    """A handler's steps are remembered, and compensated in reverse order when the message finally fails.

    A handler runs each step by `current_job().step(name, function, ...)`; `compensations[name]` is called with the
    message's value and the step's result to undo it. Both survive crashes: a finished step is not run again, an
    unfinished compensation is. `saga_store` also gets an envelope of each success and each compensated failure.
    """

    mode: str = "saga"
    local_commit: bool = False
    coordinates_effects: bool = True
    saga_store: Any | None = None
    compensations: Mapping[str, Callable[[Any, Any], object]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, compensation in self.compensations.items():
            if not callable(compensation):
                raise TypeError(f"the compensation of step {name!r} must be callable, got {compensation!r}")

    def as_dict(self) -> dict[str, Any]:
        described = {
            **Described.as_dict(self),
            "saga_store": class_name(self.saga_store),
            "compensations": sorted(self.compensations),
        }
        return described if self.compensations else _without(described, "compensations")


def _without(described: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key != name}


LOCAL_ATOMIC_COMMIT = LocalAtomicCommit()
TRANSACTIONAL_OUTBOX_COMMIT = TransactionalOutboxCommit()
TWO_PHASE_COMMIT = TwoPhaseCommit()
