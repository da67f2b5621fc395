# pyright: strict
"""The asyncio face of a queue has the type of the queue."""

from typing import Any, assert_type

from localqueue import AsyncQueue, PersistentQueue, QueueMessage


async def main() -> None:
    numbers = AsyncQueue[int]("numbers", maxsize=10)
    assert_type(await numbers.put(7, delay=1.5, dedupe_key="seven"), QueueMessage[int])
    await numbers.put_many([1, 2], dedupe_keys=["one", "two"], ttl=60)
    assert_type(await numbers.get(timeout=1), int)
    message = await numbers.get_message(leased_by="me")
    assert_type(message, QueueMessage[int])
    assert_type(await numbers.get_messages(3), list[QueueMessage[int]])
    assert_type(await numbers.ack(message, result="done"), bool)
    async for one in numbers:
        assert_type(one.value, int)
    async with numbers.transaction() as tx:
        tx.ack(message)

    async with AsyncQueue(PersistentQueue[str]("names")) as names:
        assert_type(await names.get(), str)
    anything = AsyncQueue("jobs")
    assert_type(anything, AsyncQueue[Any])
