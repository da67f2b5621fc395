"""The same tasks on every store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from localqueue import Tasks, current_job
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import JobCancelled
from tests.stores import OPENERS, new_place

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SOMEBODY = UUID("6f0c2f0e-5d8b-4f3a-9a7c-0f3c6f8b1a11")


@pytest.fixture(params=OPENERS)
def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tasks]:
    with new_place(request.param, tmp_path).open() as store, Tasks(store) as tasks:
        yield tasks


def test_typed_arguments_and_results_of_functions_and_coroutines(tasks: Tasks) -> None:
    @tasks.task(queue="threads", rate="1000/s")
    def bill(user: UUID, at: datetime) -> tuple[UUID, Decimal]:
        return user, Decimal(at.hour) / 10

    @tasks.task(queue="loop", concurrency=2)
    async def remind(user: UUID) -> bytes:
        await asyncio.sleep(0)
        return user.bytes

    async def both() -> list[Any]:
        worker = tasks.worker()
        running = asyncio.create_task(asyncio.to_thread(worker.run, signals=False))
        try:
            async with asyncio.timeout(PATIENCE):
                first = await bill.aenqueue(SOMEBODY, NOON)
                second = await remind.options(after=[first]).aenqueue(SOMEBODY)
                return await asyncio.gather(first, second)
        finally:
            worker.stop()
            await running

    assert asyncio.run(both()) == [(SOMEBODY, Decimal("1.2")), SOMEBODY.bytes]


def test_a_running_job_can_be_called_off(tasks: Tasks) -> None:
    running = threading.Event()

    @tasks.task
    def endless() -> None:
        running.set()
        while True:
            current_job().check_cancelled()
            threading.Event().wait(0.01)

    job, worker = endless.enqueue(), tasks.worker()
    thread = threading.Thread(target=worker.run, kwargs={"signals": False})
    thread.start()
    assert running.wait(PATIENCE)
    assert job.cancel()
    with pytest.raises(JobCancelled):
        job.result(timeout=PATIENCE)
    worker.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert tasks.queue().stats().dead == 0
