"""The commit policies at work: how a success is coordinated with effects outside the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localqueue.workers.commits.ledger_copy import LedgerCopy
from localqueue.workers.commits.local import Coordinator, LocalAtomic
from localqueue.workers.external_ledger import ExternalLedger
from localqueue.workers.ledger import Ledger

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue


def coordinator_for(queue: PersistentQueue[Any], ledger: Ledger | None = None) -> Coordinator:
    """What the queue's commit policy does, and what its ledger needs after a crash."""
    coordinator = _of_policy(queue)
    return LedgerCopy(coordinator, ledger) if isinstance(ledger, ExternalLedger) else coordinator


def _of_policy(queue: PersistentQueue[Any]) -> Coordinator:
    policy = getattr(queue.delivery_policy, "commit_policy", None)
    match getattr(policy, "mode", "local-atomic"):
        case "transactional-outbox":
            from localqueue.workers.commits.outbox import Outbox

            return Outbox(queue, policy)
        case "two-phase":
            from localqueue.workers.commits.two_phase import TwoPhase

            return TwoPhase(queue, policy)
        case "saga":
            from localqueue.workers.commits.saga import Saga

            return Saga(queue, policy)
        case _:
            return LocalAtomic()


__all__ = ["Coordinator", "coordinator_for"]
