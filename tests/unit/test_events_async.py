"""Hooks that are `async def` run as tasks of their loop, and the queue never waits for them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.events import AsyncHook, Event

DEADLINE = 20.0


@pytest.fixture
def store() -> Any:
    with MemoryQueueStore() as opened:
        yield opened


def test_an_async_hook_runs_in_the_loop_where_it_was_made(store: Any) -> None:
    heard: list[tuple[str, int]] = []

    async def hook(event: Event) -> None:
        heard.append((event.type, threading.get_ident()))

    async def main() -> None:
        wrapped = AsyncHook(hook)
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=wrapped)
        await asyncio.to_thread(queue.put, 1)
        await asyncio.wait_for(wrapped.flush(), DEADLINE)

    asyncio.run(main())
    assert heard == [("enqueued", threading.get_ident())]


def test_a_plain_async_function_is_a_hook_too(store: Any) -> None:
    async def main() -> Event:
        heard: asyncio.Queue[Event] = asyncio.Queue()
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.put)
        await asyncio.to_thread(queue.put, 1)
        return await asyncio.wait_for(heard.get(), DEADLINE)

    assert asyncio.run(main()).type == "enqueued"


def test_a_put_does_not_wait_for_an_async_hook(store: Any) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        entered = asyncio.Event()

        async def hook(event: Event) -> None:
            entered.set()
            await gate.wait()

        wrapped = AsyncHook(hook)
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=wrapped)
        queue.put(1)
        assert queue.qsize() == 1 and not entered.is_set()
        await asyncio.wait_for(entered.wait(), DEADLINE)
        gate.set()
        await asyncio.wait_for(wrapped.flush(), DEADLINE)

    asyncio.run(main())


def test_an_async_hook_with_a_loop_of_another_thread(store: Any) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    heard = threading.Event()

    async def hook(event: Event) -> None:
        heard.set()

    try:
        PersistentQueue("jobs", store=store, hooks=AsyncHook(hook, loop=loop)).put(1)
        assert heard.wait(DEADLINE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE)
        loop.close()


def test_an_async_hook_that_fails_or_is_cancelled_is_logged(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(event: Event) -> None:
        raise RuntimeError("broken hook")

    async def hang(event: Event) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        wrapped = AsyncHook(fail)
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=[wrapped, AsyncHook(hang)])
        queue.put(1)
        await asyncio.wait_for(wrapped.flush(), DEADLINE)

    with caplog.at_level(logging.ERROR, "localqueue.events"):
        asyncio.run(main())
    assert "broken hook" in caplog.text and "CancelledError" in caplog.text


@pytest.mark.parametrize("closed", [True, False])
def test_an_async_hook_without_a_loop_is_logged_and_the_message_is_stored(
    store: Any, caplog: pytest.LogCaptureFixture, closed: bool
) -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def hook(event: Event) -> None: ...

    queue: PersistentQueue[int] = PersistentQueue(
        "jobs", store=store, hooks=AsyncHook(hook, loop=loop) if closed else hook
    )
    with caplog.at_level(logging.ERROR, "localqueue.events"):
        queue.put(1)
    assert ("closed" if closed else "loop=loop") in caplog.text
    assert queue.qsize() == 1


def test_a_coroutine_that_nobody_would_await_is_logged(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def hook(event: Event) -> None: ...

    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=lambda event: hook(event))
    with caplog.at_level(logging.ERROR, "localqueue.events"):
        queue.put(1)
    assert "wrap it in AsyncHook" in caplog.text


def test_a_queue_with_sync_hooks_loads_neither_asyncio_nor_logging() -> None:
    code = (
        "import sys; from localqueue import PersistentQueue, MemoryQueueStore\n"
        "store = MemoryQueueStore(); PersistentQueue('a', store=store, hooks=print).put(1); store.close()\n"
        "print('loaded', sorted({'asyncio', 'logging', 'prometheus_client', 'opentelemetry'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines()[-1] == "loaded []"
