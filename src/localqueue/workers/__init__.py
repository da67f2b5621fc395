"""Consumers: lease a message, run a handler, settle the message."""

from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.async_worker import AsyncWorker
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.decorators import persistent_async_worker, persistent_worker
from localqueue.workers.job import Job, current_job
from localqueue.workers.outcome import Settled
from localqueue.workers.relay import OutboxRelay
from localqueue.workers.worker import Worker

__all__ = [
    "AsyncWorker",
    "Job",
    "OutboxRelay",
    "PersistentWorkerConfig",
    "Settled",
    "Worker",
    "WorkerCounts",
    "current_job",
    "persistent_async_worker",
    "persistent_worker",
]
