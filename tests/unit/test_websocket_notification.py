"""Pushing to connections that somebody else has accepted."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage, WebSocketNotification
from localqueue.contracts import NotificationContract
from localqueue.contracts.steps import PATIENCE

MESSAGE: QueueMessage[Any] = QueueMessage("the id", "the content", "jobs")


class Connection:
    """A WebSocket that keeps what it is sent. It fails, or waits, when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.got: list[Any] = []
        self.error = error
        self.gate = asyncio.Event()
        self.gate.set()
        self.came = asyncio.Event()

    async def send(self, payload: Any) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.got.append(payload)
        self.came.set()


class Json(Connection):
    async def send_json(self, payload: Any) -> None:
        await Connection.send(self, {"json": payload})

    async def send_text(self, payload: str) -> None:
        raise AssertionError("send_json comes first")


class Text(Connection):
    async def send_text(self, payload: str) -> None:
        await Connection.send(self, {"text": payload})


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def loop() -> Any:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


class TestContract(NotificationContract):
    @pytest.fixture
    def policy(self, loop: asyncio.AbstractEventLoop) -> WebSocketNotification:
        return WebSocketNotification(Connection(), loop=loop)


def test_one_connection_or_several_and_never_none() -> None:
    one = Connection()
    assert WebSocketNotification(one).connections == (one,)
    assert WebSocketNotification(iter([one, one])).as_dict() == {
        "type": "websocket",
        "scope": "network",
        "notifies": True,
        "notifies_on_put": True,
        "listener_count": 2,
    }
    with pytest.raises(ValueError, match=r"^connections cannot be empty$"):
        WebSocketNotification(())
    with pytest.raises(TypeError, match="a connection has send_json, send_text or send, got 5"):
        WebSocketNotification([5])
    with pytest.raises(AttributeError, match="serve"):
        _ = WebSocketNotification(one).app


def test_without_an_event_loop_it_says_so_and_the_message_stays_stored() -> None:
    with MemoryQueueStore() as store:
        policy = WebSocketNotification(Connection())
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
        with pytest.raises(RuntimeError, match=r"^WebSocketNotification requires an active event loop or loop=$"):
            queue.put("x")
        assert queue.qsize() == 1


def test_each_connection_gets_every_message_in_the_way_it_can() -> None:
    async def main() -> None:
        plain, text, structured = Connection(), Text(), Json()
        policy = WebSocketNotification([plain, text, structured], lambda message: message.id)
        for number in range(50):
            policy.notify(QueueMessage(str(number), None, "jobs"))
        await until(lambda: len(plain.got) == len(text.got) == len(structured.got) == 50)
        assert plain.got == [str(number) for number in range(50)]
        assert text.got[0] == {"text": "0"} and structured.got[0] == {"json": "0"}

    asyncio.run(main())


def test_by_default_the_fields_of_the_message_are_sent() -> None:
    async def main() -> None:
        text = Text()
        WebSocketNotification(text).notify(MESSAGE)
        await until(lambda: text.got)
        assert text.got[0]["id"] == "the id" and text.got[0]["value"] == "the content" and len(text.got[0]) == 14

    asyncio.run(main())


def test_a_put_in_any_thread_is_pushed_on_the_loop_that_was_given(loop: asyncio.AbstractEventLoop) -> None:
    connection = Connection()
    with MemoryQueueStore() as store:
        policy = WebSocketNotification(connection, loop=loop)
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
        queue.put("x")
        asyncio.run_coroutine_threadsafe(connection.came.wait(), loop).result(PATIENCE)
        assert connection.got[0]["value"] == "x"


def test_a_connection_that_fails_is_counted_said_handed_over_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    failed: list[tuple[Any, BaseException]] = []

    async def main() -> None:
        broken, good = Connection(OSError("gone")), Connection()
        policy = WebSocketNotification([broken, good], on_error=lambda *what: failed.append(what))
        for _ in range(3):
            policy.notify(MESSAGE)
        await until(lambda: len(good.got) == 3 and policy.failures)
        assert (policy.failures, policy.listener_count) == (1, 1)
        assert failed == [(broken, broken.error)] and policy.last_error is broken.error

    with caplog.at_level(logging.WARNING, "localqueue"):
        asyncio.run(main())
    assert len(caplog.records) == 1 and "gone" in caplog.text


def test_a_loop_that_is_closed_fails_its_connections_and_not_the_put() -> None:
    loop = asyncio.new_event_loop()
    policy = WebSocketNotification(Connection(), loop=loop)
    loop.close()
    policy.notify(MESSAGE)
    assert (policy.failures, policy.listener_count) == (1, 0)
    policy.notify(MESSAGE)


def test_a_slow_connection_holds_up_nobody_and_gets_the_latest_of_each_queue() -> None:
    async def main() -> None:
        slow, quick = Connection(), Connection()
        slow.gate.clear()
        policy = WebSocketNotification([slow, quick], lambda message: (message.queue, message.id), buffer=4)
        for number in range(200):
            policy.notify(QueueMessage(str(number), None, "jobs" if number % 2 else "mail"))
            await until(lambda number=number: len(quick.got) == number + 1)
        slow.gate.set()
        await until(lambda: slow.got and slow.got[-1] == ("jobs", "199"))
        assert ("mail", "198") in slow.got and len(slow.got) <= 5

    asyncio.run(main())


def test_a_message_is_pushed_when_it_can_be_leased_and_not_before() -> None:
    async def main() -> None:
        connection = Connection()
        policy = WebSocketNotification(connection, lambda message: message.id)
        policy.notify(QueueMessage("waits", None, "jobs", state="waiting"))
        policy.notify(QueueMessage("now", None, "jobs"))
        await until(lambda: connection.got)
        start = time.monotonic()
        policy.notify(QueueMessage("later", None, "jobs", available_at=0.1))
        await until(lambda: len(connection.got) == 2)
        assert time.monotonic() - start > 0.09
        assert connection.got == ["now", "later"]

    asyncio.run(main())
