"""What the asyncio face of a queue is not."""

from localqueue import AsyncQueue


async def main() -> None:
    numbers = AsyncQueue[int]("numbers")
    await numbers.put("seven")  # error
    await numbers.put(7, dely=1)  # error
    text: str = await numbers.get()  # error
    await numbers.ack(7)  # error
    print(text)
    AsyncQueue(7)  # error
