"""Everyday calls of coroutines at a server: on the event loop, without a thread, on connections that go with it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Any

import pytest

from localqueue import AsyncQueue, PersistentQueue
from localqueue.aio.threads import threads_of
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreClosedError, QueueStoreUnavailableError
from localqueue.policies import PickleCodec
from localqueue.stores.port import AsyncCalls, LeaseRequest
from tests.servers import Server, children_of
from tests.stores import SERVERS, Place, on_server
from tests.unit.worker_steps import eventually

pytestmark = pytest.mark.server

NATIVE = ("redis", "postgres")


class Ours:
    """A server of this test file alone, to be mistreated, and looked at from outside."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.place: Place = on_server(server)

    def connections(self) -> int:
        """Those of clients, apart from the one that looks."""
        if self.server.name == "postgres":
            return int(self._execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'localqueue'"))
        import redis

        with redis.Redis.from_url(self.server.url) as client:
            return len(client.client_list()) - 1

    def cut(self) -> None:
        """End all connections of clients."""
        if self.server.name == "postgres":
            ours = "application_name = 'localqueue'"
            self._execute(f"SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE {ours}")
            return
        import redis

        with redis.Redis.from_url(self.server.url) as client:
            client.client_kill_filter(_type="normal", skipme=True)

    def opened_with(self, *, timeout: float) -> Any:
        """A store that does not wait for long, opened once the server was quick enough for it."""
        while True:
            with suppress(QueueStoreUnavailableError):
                return self.place.open(timeout=timeout)

    def _execute(self, statement: str) -> Any:
        import psycopg

        with psycopg.connect(self.server.url, autocommit=True) as connection:
            return connection.execute(statement).fetchone()[0]  # type: ignore[arg-type, index]

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It answers nobody."""
        assert self.server.process is not None
        pids = [self.server.process.pid, *children_of(self.server.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module", params=NATIVE)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    started = SERVERS[request.param]()
    started.start()
    yield started
    started.stop()


@pytest.fixture
def ours(server: Server) -> Ours:
    return Ours(server)


@pytest.fixture
def store(ours: Ours) -> Iterator[Any]:
    with ours.place.open() as opened:
        yield opened


def run(program: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(3 * PATIENCE):
            await program()

    asyncio.run(within(), debug=True)


async def in_the_end(work: Callable[[], Awaitable[None]]) -> None:
    """Again until the server, which may be busy, answers in time."""
    while True:
        with suppress(QueueStoreUnavailableError):
            return await work()


def calls_of(store: Any) -> AsyncCalls:
    calls: AsyncCalls | None = store.async_calls(lambda work: asyncio.get_running_loop().run_in_executor(None, work))
    assert calls is not None
    return calls


async def warmed_up(queue: AsyncQueue[Any]) -> None:
    """The server knows the queue, and the loop has a connection."""
    await queue.put("first")
    assert await queue.ack(await queue.get_message())


@contextmanager
def no_threads(store: Any) -> Iterator[None]:
    """All threads of the store are held up."""
    pool, go_on = threads_of(store), threading.Event()
    held = [threading.Event() for _ in range(store.calls_at_once)]

    def hold(event: threading.Event) -> None:
        event.set()
        assert go_on.wait(PATIENCE)

    futures = [pool.submit(hold, event) for event in held]
    try:
        assert all(event.wait(PATIENCE) for event in held)
        yield
    finally:
        go_on.set()
        for future in futures:
            future.result(PATIENCE)


def test_everyday_calls_need_no_thread(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[Any]("jobs", store=store) as queue:
            await warmed_up(queue)
            with no_threads(store):
                assert (await queue.put(1)).value == 1
                assert [message.value for message in await queue.put_many([2, 3])] == [2, 3]
                messages = await queue.get_messages(2)
                assert [message.value for message in messages] == [1, 2]
                renewed = await queue.renew(messages[0], timeout=500)
                assert renewed is not None
                assert renewed.leased_until is not None
                assert await queue.ack(renewed)
                assert await queue.renew(renewed) is None
                assert await queue.ack(messages[1])
                assert await queue.get() == 3
                assert await queue.task_done()
                await queue.put_many([4, 5])
                assert await queue.ack_many(await queue.get_messages(2)) == [True, True]
            assert not await queue.ack(messages[0])
            assert (await queue.stats()).total == 0

    run(program)


def test_many_coroutines_are_served_at_once_without_a_thread(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            await warmed_up(queue)

            async def work(n: int) -> int:
                await queue.put(n)
                message = await queue.get_message()
                assert await queue.ack(message)
                return message.value

            with no_threads(store):
                assert sorted(await asyncio.gather(*map(work, range(200)))) == list(range(200))

    run(program)


def test_values_that_take_more_than_one_packet_arrive_whole(store: Any) -> None:
    large = "x" * 5_000_000

    async def program() -> None:
        async with AsyncQueue[Any]("jobs", store=store) as queue:
            await asyncio.gather(*(queue.put([n, large]) for n in range(3)))
            messages = await queue.get_messages(3)
            assert sorted(message.value[0] for message in messages) == [0, 1, 2]
            assert all(message.value[1] == large for message in messages)

    run(program)


def test_what_blocks_by_the_word_of_the_user_runs_in_threads(store: Any) -> None:
    threads: set[int] = set()

    async def program() -> None:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.add_hook(lambda event: threads.add(threading.get_ident()))
        async with AsyncQueue(queue) as hooked:
            await hooked.put(1)
            assert await hooked.ack(await hooked.get_message())
        assert threads
        assert threading.get_ident() not in threads
        async with AsyncQueue[Any]("pickled", store=store, codec=PickleCodec(trusted=True)) as pickled:
            await pickled.put((1,))
            assert await pickled.get() == (1,)

    run(program)


def test_a_message_that_can_not_be_read_becomes_a_dead_letter(store: Any) -> None:
    store.put_one("jobs", b"{broken", None)
    store.put_one("jobs", "2", None)

    async def program() -> None:
        async with AsyncQueue[Any]("jobs", store=store) as queue:
            assert await queue.get() == 2
            assert (await queue.stats()).dead == 1

    run(program)


def test_arguments_are_checked_as_they_are_for_threads(store: Any) -> None:
    async def program() -> None:
        calls = calls_of(store)
        with pytest.raises(TypeError, match="payload"):
            calls.put_one("jobs", 5, None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="Lease"):
            calls.renew(["x"], timeout=3)  # type: ignore[list-item]

    run(program)


def test_a_call_whose_future_is_cancelled_ends_by_itself(store: Any) -> None:
    async def program() -> None:
        calls = calls_of(store)
        await calls.put_one("jobs", "1", None)
        for _ in range(20):
            calls.put_one("jobs", "2", None).cancel()
        count = 0
        while count < 21:
            count += len(await calls.lease(LeaseRequest("jobs", 100)))
        assert count == 21

    run(program)


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_connection_that_was_cut_while_nothing_was_asked_costs_nobody_a_call(
    store: Any, ours: Ours, pause: float
) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            for n in range(3):
                await queue.put(n)
                ours.cut()
                await asyncio.sleep(pause)  # the loop may hear of it before the next call, or not
            assert await queue.ack(await queue.get_message())
            assert await queue.qsize() == 2

    run(program)


def test_a_connection_that_breaks_fails_the_calls_under_way_and_is_replaced(ours: Ours) -> None:
    with ours.opened_with(timeout=0.5) as store:

        async def program() -> None:
            async with AsyncQueue[int]("jobs", store=store) as queue:

                async def works() -> None:
                    await queue.put(7)
                    messages = await queue.get_messages(10)
                    assert messages[-1].value == 7
                    assert all(await queue.ack_many(messages))

                await in_the_end(works)
                with ours.silent():
                    failed = await asyncio.gather(*(queue.put(n) for n in range(5)), return_exceptions=True)
                assert {type(error) for error in failed} == {QueueStoreUnavailableError}
                await in_the_end(works)

        run(program)


@pytest.mark.crash
def test_a_loop_works_on_after_the_server_was_killed(store: Any, ours: Ours) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            await queue.put_many([1, 2, 3])
            message = await queue.get_message()
            ours.server.kill()
            with pytest.raises(QueueStoreUnavailableError):
                await queue.put(4)
            with pytest.raises(QueueStoreUnavailableError):
                await queue.get_message()
            ours.server.start()
            await queue.put(4)
            assert await queue.ack(message)
            assert [one.value for one in await queue.get_messages(9)] == [2, 3, 4]
            with no_threads(store):
                await queue.put(5)

    run(program)


def test_connections_are_closed_with_their_loop(store: Any, ours: Ours) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            await queue.put(1)
            assert await queue.ack(await queue.get_message())

    run(program)
    before = ours.connections()
    for _ in range(5):
        run(program)
    eventually(lambda: ours.connections() <= before)


def test_a_loop_that_was_closed_without_a_word_leaves_no_connection_for_long(store: Any, ours: Ours) -> None:
    async def program() -> None:
        await AsyncQueue[int]("jobs", store=store).put(1)

    def begin_and_close() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(program())
        loop.close()

    begin_and_close()
    first = ours.connections()
    for _ in range(4):
        begin_and_close()
        eventually(lambda: ours.connections() <= first + 1)


def test_connections_are_closed_with_the_store_and_later_calls_are_refused(ours: Ours) -> None:
    eventually(lambda: ours.connections() == 0)  # the server has ended those of the tests before

    async def program() -> None:
        store = ours.place.open()
        queue = AsyncQueue[int]("jobs", store=store)
        await queue.put(1)
        assert ours.connections() > 0
        store.close()
        with pytest.raises(QueueStoreClosedError):
            await queue.put(2)
        while ours.connections() > 0:
            await asyncio.sleep(0.01)  # the loop closes it

    run(program)


def test_two_loops_have_connections_of_their_own(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            for n in range(50):
                await queue.put(n)
                assert await queue.ack(await queue.get_message())

    threads = [threading.Thread(target=run, args=(program,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.stats("jobs").total == 0


@pytest.mark.multiprocess
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_has_a_connection_of_its_own(store: Any) -> None:
    async def in_child() -> None:
        async with asyncio.timeout(PATIENCE), AsyncQueue[str]("jobs", store=store) as queue:
            assert await queue.get(timeout=0) == "parent"
            assert await queue.task_done()
            await queue.put("child")

    async def program() -> None:
        async with AsyncQueue[str]("jobs", store=store) as queue:
            await queue.put("parent")
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    asyncio.run(in_child())
                    code = 0
                finally:
                    os._exit(code)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert await queue.get() == "child"
            assert await queue.task_done()
            with pytest.raises(Empty):
                await queue.get(timeout=0)

    run(program)
