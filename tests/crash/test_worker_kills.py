"""Workers killed at every step of the life of a message: nothing is lost, and what is promised once happens once."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, Worker
from localqueue.idempotency import QueueIdempotencyStore
from tests.crash.children import Child, reports_of
from tests.crash.effects import SCENES, STEPS, VALUES, Log, Scene, lines, play, post, posting_handler, transfers
from tests.crash.stores import OPENERS, open_store

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

AN_HOUR = 3600.0

#: Before an effect, before the end of a transaction and after it. A kill at the beginning of one leaves what a kill
#: before its end leaves, as `test_commit_edges` shows.
PLACES = ("effect", "applied", "committed")


def put_all(kind: str, path: str, name: str) -> None:
    with open_store(kind, path) as store:
        scene = SCENES[name](store, path, Log(path))
        for value in VALUES:
            scene.queue.put(value, dedupe_key=f"key-{value}")
        scene.close()


def kills(kind: str, tmp_path: Path, name: str, at: str) -> Iterator[tuple[int, str]]:
    """Places a worker was killed at, one after the other, until one comes to its end (or those up to 24 have not).

    On SQLite each of them, on the other stores every third: the worker's own steps are the same.
    """
    for nth in itertools.count(1, 1 if kind == "sqlite" else 3):
        path = str(tmp_path / f"{at}-{nth}")
        put_all(kind, path, name)
        child = Child(play, kind, path, name, at, nth)
        if child.reports() == ["done"]:
            assert nth > 6, "the workers must have been killed at some steps"
            return
        assert child.exit_code == -signal.SIGKILL
        yield nth, path
        if nth >= 24:
            return


def recovered(kind: str, path: str, name: str) -> tuple[Any, Scene]:
    """The store after a new worker ran to the end, with the leases of the dead run out."""
    store = open_store(kind, path, clock=lambda: time.time() + AN_HOUR)
    scene = SCENES[name](store, path, Log(path))
    for _ in range(2):  # the second one finds what the store buried while the first one leased
        scene.run()
    return store, scene


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("name", ["follow-ups", "external-ledger"])
@pytest.mark.parametrize("kind", OPENERS)
def test_follow_ups_results_and_ledger_happen_once_wherever_a_worker_is_killed(
    kind: str, name: str, at: str, tmp_path: Path
) -> None:
    for nth, path in kills(kind, tmp_path, name, at):
        store, scene = recovered(kind, path, name)
        with store:
            assert scene.queue.stats().total == 0, f"left at {at} {nth}"
            values = sorted(message.value for message in scene.after.get_messages(99, block=False))
            assert values == list(VALUES), f"follow-ups at {at} {nth}"
            ledger: Any = getattr(scene, "ledger", None) or QueueIdempotencyStore(store)
            records = [ledger.load(f"jobs:key-{value}") for value in VALUES]
            assert [record.status for record in records] == ["succeeded"] * len(VALUES)
            assert [record.metadata["result"] for record in records] == list(VALUES)
            scene.close()
        handled = Counter(lines(path))
        assert set(handled) == {f"handle {value}" for value in VALUES}
        assert max(handled.values()) <= 2, "one kill repeats one handler"


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_message_is_there_or_its_result_is_wherever_its_worker_is_killed(kind: str, at: str, tmp_path: Path) -> None:
    for nth, path in kills(kind, tmp_path, "results", at):
        with open_store(kind, path) as store:
            live = {message.id for message in store.scan("jobs")}
            ended = {record.key for record in store.records("outcome")}
            assert not live & ended and len(live | ended) == len(VALUES), f"torn at {at} {nth}"
        store, scene = recovered(kind, path, "results")
        with store:
            results = [scene.queue.result(message_id, timeout=0) for message_id in sorted(live | ended)]
            assert results == list(VALUES), f"results at {at} {nth}"
            values = sorted(message.value for message in scene.after.get_messages(99, block=False))
            assert values == list(VALUES), f"follow-ups at {at} {nth}"


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_relay_sends_in_order_and_at_least_once_wherever_it_is_killed(kind: str, at: str, tmp_path: Path) -> None:
    for nth, path in kills(kind, tmp_path, "outbox", at):
        store, scene = recovered(kind, path, "outbox")
        with store:
            assert scene.queue.stats().total == 0
            assert sorted(message.value for message in scene.after.get_messages(99, block=False)) == list(VALUES)
            outbox = store.stats("jobs.outbox")
            assert outbox.total == 0
        sent = [int(line.split()[1]) for line in lines(path) if line.startswith("sent")]
        once = [value for value, _ in itertools.groupby(sent)]
        assert sorted(once) == list(VALUES), f"sent at {at} {nth}: {sent}"
        handled = [int(line.split()[1]) for line in lines(path) if line.startswith("handle")]
        assert once == list(dict.fromkeys(reversed(handled)))[::-1], f"order at {at} {nth}"


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_participant_commits_each_message_once_wherever_its_worker_is_killed(
    kind: str, at: str, tmp_path: Path
) -> None:
    for nth, path in kills(kind, tmp_path, "two-phase", at):
        store, scene = recovered(kind, path, "two-phase")
        with store:
            assert scene.queue.stats().total == 0
            assert sorted(message.value for message in scene.after.get_messages(99, block=False)) == list(VALUES)
            assert scene.bank.transfers() == [(value, "committed") for value in VALUES], f"at {at} {nth}"  # type: ignore[attr-defined]
            assert store.records("two-phase") == []


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("kind", OPENERS)
def test_compensations_are_complete_and_in_reverse_order_wherever_a_worker_is_killed(
    kind: str, at: str, tmp_path: Path
) -> None:
    for nth, path in kills(kind, tmp_path, "saga", at):
        store, scene = recovered(kind, path, "saga")
        with store:
            assert scene.queue.stats().dead == len(VALUES), f"at {at} {nth}"
            assert store.records("saga") == []
        for value in VALUES:
            log = [line.split() for line in lines(path)]
            done = list(dict.fromkeys(name for what, of, name in log if (what, of) == ("do", str(value))))
            undone = [name for what, of, name in log if (what, of) == ("undo", str(value))]
            in_turn = [name for name, _ in itertools.groupby(undone)]
            assert done == list(STEPS[: len(done)])
            started = in_turn[::-1]
            assert started == list(STEPS[: len(started)]), f"undone at {at} {nth}: {undone}"
            assert len(done) <= len(started) <= len(done) + 1, f"undone at {at} {nth}: {done} {undone}"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", OPENERS)
def test_balances_are_exact_after_rounds_of_random_kills(kind: str, seed: int, tmp_path: Path) -> None:
    rng, path = random.Random(seed), str(tmp_path / "store")
    expected: Counter[str] = Counter()
    killed = 0
    for round_ in range(5):
        ahead = round_ * AN_HOUR
        with open_store(kind, path, clock=lambda ahead=ahead: time.time() + ahead) as store:
            queue = transfers(store)
            for n in range(40):
                key = f"{round_}-{n}"
                transfer = {"from": rng.choice("abc"), "to": rng.choice("xyz"), "amount": rng.randint(1, 9)}
                queue.put(transfer, dedupe_key=key)
                expected[transfer["to"]] += transfer["amount"]
                expected[transfer["from"]] -= transfer["amount"]
            if round_:  # keys that were seen before, some of them done: they must not count again
                for n in range(40):
                    queue.put({"from": "a", "to": "x", "amount": 1000}, dedupe_key=f"{round_}-{n}")
        # In the first round there are more commits to share than the three can make without one being killed.
        nths = (3, 25) if round_ else (1, 4)
        edges = [(rng.choice(("begun", "applied", "committed")), rng.randint(*nths)) for _ in range(3)]
        children = [Child(post, kind, path, ahead, at, nth) for at, nth in edges]
        reports_of(children)
        killed += sum(child.exit_code == -signal.SIGKILL for child in children)
        assert all(child.exit_code in (0, -signal.SIGKILL) for child in children)
    assert killed
    with open_store(kind, path, clock=lambda: time.time() + 9 * AN_HOUR) as store:
        Worker(transfers(store), posting_handler(store), max_tries=50).run_until_empty(signals=False)
        stats = transfers(store).stats()
        assert (stats.total, stats.dead) == (0, 0)
        postings: PersistentQueue[Any] = PersistentQueue("postings", store=store)
        balances: Counter[str] = Counter()
        for message in postings.get_messages(9999, block=False):
            balances[message.value["account"]] += message.value["amount"]
        assert balances == expected
