"""Recovery for a ledger of its own: successes that were committed and not yet written there."""

from __future__ import annotations

from localqueue.workers.commits.local import Coordinator
from localqueue.workers.external_ledger import ExternalLedger
from localqueue.workers.job import Job
from localqueue.workers.ledger import Kept
from localqueue.workers.outcome import Outcome, Steps


class LedgerCopy(Coordinator):
    """A coordinator whose recovery also copies what is missing in the ledger."""

    needs_recovery = True

    def __init__(self, coordinator: Coordinator, ledger: ExternalLedger) -> None:
        self._coordinator = coordinator
        self._ledger = ledger

    def begin(self, job: Job) -> Steps:
        return self._coordinator.begin(job)

    def succeeded(self, job: Job, kept: Kept, outcome: Outcome) -> Steps:
        return self._coordinator.succeeded(job, kept, outcome)

    def failed(self, job: Job, error: BaseException, outcome: Outcome) -> Steps:
        return self._coordinator.failed(job, error, outcome)

    def recover(self) -> Steps:
        yield from self._coordinator.recover()
        self._ledger.copy_all()
