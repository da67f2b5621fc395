"""Several processes on one store. Workers are module-level functions, started by a fork server."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from localqueue.contracts.harness import StoreHarness
from localqueue.contracts.steps import (
    PATIENCE,
    Background,
    ack,
    assert_sound,
    counts,
    lease,
    new,
    override,
    put,
    put_limited,
    put_many,
    release,
    stored,
    take,
)
from localqueue.errors import QueueFull
from localqueue.stores.port import Changes, Limit, QueueStore


def finish(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.join(PATIENCE * 2)
        assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"


def _fill(store: QueueStore, go: Any, answers: Any) -> None:
    admitted = 0
    go.wait(2 * PATIENCE)
    for _ in range(20):
        try:
            put_limited(store, Limit(50))
            admitted += 1
        except QueueFull:
            pass
    answers.put(admitted)


def _claim_and_ack(store: QueueStore, go: Any, answers: Any, limit: int) -> None:
    go.wait(2 * PATIENCE)
    claimed: list[str] = []
    while found := lease(store, limit=limit, timeout=300):
        for message in found:
            assert ack(store, message)
            claimed.append(message.id)
    answers.put(claimed)


def _settle_stale(store: QueueStore, message_id: str, answers: Any) -> None:
    before = stored(store, message_id)
    stale = before._replace(attempts=before.attempts - 1)
    answers.put(
        [
            ack(store, stale),
            release(store, stale),
            override(store, message_id, "release", queue="another-queue"),
            stored(store, message_id) == before,
        ]
    )


def _dedupe(store: QueueStore, go: Any, answers: Any) -> None:
    go.wait(2 * PATIENCE)
    done = [store.commit(Changes(enqueue=[new(store, dedupe_key="d")])).enqueued[0].outcome for _ in range(10)]
    answers.put(done.count("stored"))


def _mint(store: QueueStore, go: Any, answers: Any) -> None:
    go.wait(2 * PATIENCE)
    answers.put([put(store, "minted") for _ in range(100)])


class ProcessContract:
    @pytest.fixture
    def crew(self, harness: StoreHarness) -> Any:
        """Starts processes (and four threads here, if asked) that begin together; what each of them answered."""

        def run(work: Any, arguments: list[tuple[Any, ...]], *, in_threads_of: QueueStore | None = None) -> list[Any]:
            context = harness.context()
            beside = 0 if in_threads_of is None else 4
            go, answers = context.Barrier(len(arguments) + beside), context.Queue()
            processes = [harness.in_process(work, go, answers, *extra) for extra in arguments]
            threads = Background()
            for n in range(beside):
                threads.start(work, in_threads_of, go, answers, *arguments[n % len(arguments)])
            results = [answers.get(timeout=3 * PATIENCE) for _ in range(len(arguments) + beside)]
            threads.join()
            finish(processes)
            return results

        return run

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_eight_processes_fill_a_queue_to_its_limit_and_not_beyond(self, live: QueueStore, crew: Any) -> None:
        assert sum(crew(_fill, [()] * 8)) == 50
        assert counts(live) == {"ready": 50}
        assert_sound(live)

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_four_threads_and_four_processes_claim_500_messages_exactly_once_each(
        self, live: QueueStore, crew: Any
    ) -> None:
        ids = put_many(live, (str(n) for n in range(500)))
        claimed = crew(_claim_and_ack, [(1,), (1,), (5,), (20,)], in_threads_of=live)
        assert len(claimed) == 8
        assert sorted(message_id for part in claimed for message_id in part) == ids
        assert counts(live) == {}
        assert_sound(live)

    @pytest.mark.multiprocess
    def test_a_stale_token_changes_nothing_from_another_process(self, live: QueueStore, harness: StoreHarness) -> None:
        put(live)
        take(live, timeout=0)
        message = take(live, timeout=300)
        assert message.attempts == 2
        answers = harness.context().Queue()
        process = harness.in_process(_settle_stale, message.id, answers)
        assert answers.get(timeout=2 * PATIENCE) == [False, False, False, True]
        finish([process])
        assert ack(live, message)

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_processes_that_put_one_key_store_one_message(self, live: QueueStore, crew: Any) -> None:
        assert sum(crew(_dedupe, [()] * 4)) == 1
        assert counts(live) == {"ready": 1}

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_processes_never_mint_the_same_id(self, live: QueueStore, crew: Any) -> None:
        ids = [message_id for part in crew(_mint, [()] * 4) for message_id in part]
        assert len(set(ids)) == 400
        assert sorted(ids) == [message.id for message in live.scan("minted")]
