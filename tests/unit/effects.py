"""What tests of effectively-once work share: stores of every kind, keyed queues and ways to run them to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue import AsyncWorker, PersistentQueue, Worker
from localqueue.policies import EffectivelyOnceDelivery
from tests.stores import OPENERS, new_place

KINDS = tuple(OPENERS)


def open_queue_store(kind: str, path: Path, **options: Any) -> Any:
    return new_place(kind, path).open(**options)


def keyed(store: Any, name: str = "jobs", *, lease_timeout: float = 30.0, **delivery: Any) -> PersistentQueue[Any]:
    """A queue with effectively-once delivery."""
    return PersistentQueue(
        name, store=store, lease_timeout=lease_timeout, delivery_policy=EffectivelyOnceDelivery(**delivery)
    )


def run_in_threads(queue: PersistentQueue[Any], handler: Callable[..., Any], **options: Any) -> list[Any]:
    """Process what is there; the settled messages."""
    settled: list[Any] = []
    options = {"max_tries": 1, **options}
    Worker(queue, handler, on_settled=settled.append, **options).run_until_empty(wait_for_delayed=True, signals=False)
    return settled


def run_on_a_loop(queue: PersistentQueue[Any], handler: Callable[..., Any], **options: Any) -> list[Any]:
    settled: list[Any] = []
    options = {"max_tries": 1, **options}

    async def handle(value: Any) -> Any:
        return handler(value)

    async def main() -> None:
        worker = AsyncWorker(queue, handle, on_settled=settled.append, **options)
        await worker.run_until_empty(wait_for_delayed=True, signals=False)

    asyncio.run(main())
    return settled


RUNS = {"threads": run_in_threads, "loop": run_on_a_loop}
