"""Coroutines that are cancelled at any point lose no message, hold none, and have none delivered twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localqueue import AsyncQueue, MemoryQueueStore, QueueMessage
from localqueue.contracts.steps import PATIENCE
from tests.stores import OPENERS, new_place

CALLS = ("get", "get many", "get for a while", "put", "put many")
STEPS = 400


class Step(NamedTuple):
    """A call that is begun, and how many turns of the loop later it is cancelled; never when that is None."""

    call: str
    turns: int | None
    twice: bool = False


class Storm:
    """Makes calls and cancels them, and knows afterwards what must be in the queue."""

    def __init__(self, queue: AsyncQueue[int]) -> None:
        self.queue = queue
        self.got: list[QueueMessage[int]] = []
        self.tried: set[int] = set()
        self.confirmed: set[int] = set()

    async def blow(self, steps: Iterable[Step]) -> None:
        calls = [asyncio.ensure_future(self._step(number, step)) for number, step in enumerate(steps)]
        await asyncio.gather(*calls)

    async def _step(self, number: int, step: Step) -> None:
        await asyncio.sleep(number * 0.0005)
        call = asyncio.ensure_future(self._call(step.call, number * 3))
        if step.turns is None and step.call in ("get", "get many"):
            step = step._replace(turns=30)  # it might wait for ever
        if step.turns is not None:
            for _ in range(step.turns):
                await asyncio.sleep(0)
            call.cancel()
            if step.twice:
                await asyncio.sleep(0)
                call.cancel()
        await asyncio.wait((call,))
        assert call.cancelled() or call.exception() is None

    async def _call(self, call: str, value: int) -> None:
        match call:
            case "get":
                self.got.append(await self.queue.get_message())
            case "get many":
                self.got += await self.queue.get_messages(3)
            case "get for a while":
                with suppress(Empty):
                    self.got.append(await self.queue.get_message(timeout=0.002))
            case "put":
                self.tried.add(value)
                await self.queue.put(value)
                self.confirmed.add(value)
            case _:
                values = {value, value + 1, value + 2}
                self.tried |= values
                await self.queue.put_many(sorted(values))
                self.confirmed |= values

    async def check(self) -> None:
        await self.queue.qsize()
        stats = await self.queue.stats()
        assert stats.inflight == len(self.got), "a get that was cancelled holds a message"
        while True:
            try:
                self.got += await self.queue.get_messages(1000, block=False)
            except Empty:
                break
        values = [message.value for message in self.got]
        assert len(values) == len(set(values)), "a message was delivered twice"
        assert self.confirmed <= set(values), "a message was lost"
        assert set(values) <= self.tried
        assert {message.attempts - message.forgiven for message in self.got} <= {1}, (
            "a cancelled get counts as delivery"
        )
        assert all(await self.queue.ack_many(self.got))


def run(store: Any, steps: list[Step]) -> None:
    async def program() -> None:
        async with asyncio.timeout(PATIENCE), AsyncQueue[int]("jobs", store=store, lease_timeout=1000) as queue:
            storm = Storm(queue)
            await storm.blow(steps)
            # A put that was cancelled while it ran ends by itself.
            await asyncio.gather(*(queue.qsize() for _ in range(20)))
            await storm.check()

    asyncio.run(program())


@pytest.mark.parametrize("kind", OPENERS)
@pytest.mark.parametrize("seed", range(2))
def test_calls_that_are_cancelled_at_random_lose_and_hold_and_double_nothing(
    kind: str, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    steps = [
        Step(chance.choice(CALLS), chance.choice([None, *range(12), 30, 100]), chance.random() < 0.2)
        for _ in range(STEPS)
    ]
    with new_place(kind, tmp_path).open() as store:
        run(store, steps)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.builds(Step, st.sampled_from(CALLS), st.one_of(st.none(), st.integers(0, 15)), st.booleans()), max_size=25
    )
)
def test_no_schedule_of_cancellations_loses_or_holds_or_doubles_a_message(steps: list[Step]) -> None:
    with MemoryQueueStore() as store:
        run(store, steps)


@pytest.mark.parametrize("kind", OPENERS)
def test_the_end_of_the_loop_gives_back_what_was_claimed(kind: str, tmp_path: Path) -> None:
    with new_place(kind, tmp_path).open() as store:
        for turns in range(12):
            name = f"jobs-{turns}"
            gets = asyncio.run(_get_and_end(AsyncQueue[int](name, store=store), turns))
            taken = [get for get in gets if not get.cancelled()]
            stats = store.stats(name)
            assert (stats.inflight, stats.total) == (len(taken), 10)


async def _get_and_end(queue: AsyncQueue[int], turns: int) -> list[asyncio.Task[QueueMessage[int]]]:
    await queue.put_many(range(10))
    gets = [asyncio.ensure_future(queue.get_message()) for _ in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    return gets
