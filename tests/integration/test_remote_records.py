"""Results, ledgers and attempts on a server, by its address: they keep their contracts and make nothing by looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, Worker
from localqueue.contracts import (
    AdapterHarness,
    AttemptStoreContract,
    ListedResultStoreContract,
    SharedIdempotencyStoreContract,
)
from localqueue.errors import (
    IdempotencyStoreLockedError,
    QueueStoreClosedError,
    QueueStoreLockedError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
)
from localqueue.idempotency import (
    IdempotencyRecord,
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    RemoteIdempotencyStore,
    SQLiteIdempotencyStore,
    open_idempotency_store,
)
from localqueue.policies import EffectivelyOnceDelivery, ReturnStoredResult, TransactionalOutboxCommit
from localqueue.results import (
    LMDBResultStore,
    MemoryResultStore,
    RemoteResultStore,
    SQLiteResultStore,
    open_result_store,
)
from localqueue.retry import (
    LMDBAttemptStore,
    MemoryAttemptStore,
    PersistentRetrying,
    RemoteAttemptStore,
    RetryRecord,
    SQLiteAttemptStore,
    open_attempt_store,
)
from localqueue.stores import open_store
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.workers import OutboxRelay
from tests.servers import free_port
from tests.stores import SERVERS, Place, new_place

OPENERS = (open_result_store, open_idempotency_store, open_attempt_store)


@pytest.fixture(params=list(SERVERS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


def open_ledger(location: str) -> Any:
    url, _, namespace = location.partition(" ")
    return open_idempotency_store(url, namespace=namespace)


class TestLedger(SharedIdempotencyStoreContract):
    @pytest.fixture
    def harness(self, place: Place) -> AdapterHarness:
        location = f"{place.url} {place.namespace}"
        return AdapterHarness(
            open=lambda: open_ledger(location), opener=f"{__name__}:{open_ledger.__name__}", location=location
        )


class TestResults(ListedResultStoreContract):
    # Pages of keys are read by the records of a queue store, which have this test on each server.
    test_many_keys_are_listed_completely = None  # type: ignore[assignment]

    @pytest.fixture
    def harness(self, place: Place) -> AdapterHarness:
        return AdapterHarness(open=lambda: open_result_store(place.url, namespace=place.namespace))


class TestAttempts(AttemptStoreContract):
    @pytest.fixture
    def harness(self, place: Place) -> AdapterHarness:
        return AdapterHarness(open=lambda: open_attempt_store(place.url, namespace=place.namespace))


@pytest.fixture
def opened() -> Iterator[Callable[..., Any]]:
    """Opens stores that are closed after the test."""
    stores: list[Any] = []

    def opened(open_one: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        stores.append(open_one(*arguments, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def exists(place: Place) -> bool:
    try:
        open_store(place.url, namespace=place.namespace, read_only=True).close()
    except QueueStoreMissingError:
        return False
    return True


def test_an_address_opens_the_store_of_its_kind(tmp_path: Path, opened: Any) -> None:
    kinds = [
        (open_result_store, MemoryResultStore, SQLiteResultStore, LMDBResultStore, RemoteResultStore),
        (
            open_idempotency_store,
            *(MemoryIdempotencyStore, SQLiteIdempotencyStore, LMDBIdempotencyStore, RemoteIdempotencyStore),
        ),
        (open_attempt_store, MemoryAttemptStore, SQLiteAttemptStore, LMDBAttemptStore, RemoteAttemptStore),
    ]
    for number, (open_one, memory, file, folder, server) in enumerate(kinds):
        at = tmp_path / str(number)
        at.mkdir()
        assert type(opened(open_one, "memory://")) is memory
        assert type(opened(open_one, f"sqlite:///{at}/file", timeout=3.0)) is file
        assert type(opened(open_one, f"lmdb:///{at}/folder")) is folder
        for url in ("postgresql://nowhere/db", "redis://nowhere", "mongodb://nowhere"):
            assert type(opened(open_one, url)) is server
        assert list(at.iterdir()) == []


@pytest.mark.parametrize("open_one", OPENERS)
def test_an_address_that_can_not_be_opened_is_refused_with_the_way_out(open_one: Any) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///file.db, lmdb:///directory, memory://, postgresql"):
        open_one("mysql://host/db")
    with pytest.raises(ValueError, match="only servers have them"):
        open_one("sqlite:///file.db", namespace="other")
    for url in ("sqlite:///file.db", "memory://"):
        with pytest.raises(ValueError, match=r"is no server: open_result_store\(\)"):
            RemoteResultStore(url)


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "mongodb"])
def test_no_password_is_shown(scheme: str, opened: Any) -> None:
    store = opened(open_result_store, f"{scheme}://ann:sesame-42@127.0.0.1:{free_port()}/7", timeout=0.2)
    with pytest.raises(QueueStoreUnavailableError) as failure:
        store.load("a")
    for text in (repr(store), str(failure.value), repr(failure.value)):
        assert "sesame" not in text
        assert "ann@127.0.0.1" in text


def test_looking_makes_nothing_and_the_first_write_does(place: Place, opened: Any) -> None:
    results, ledger, attempts = (opened(open_one, place.url, namespace=place.namespace) for open_one in OPENERS)
    assert results.find("a") == (False, None)
    assert results.keys() == []
    assert ledger.load("a") is None
    assert ledger.prune_completed(older_than=0, now=1.0) == 0
    assert attempts.count_exhausted_older_than(older_than=0, now=1.0) == 0
    attempts.delete("a")
    assert not exists(place)
    results.save("a", 1)
    assert exists(place)
    assert (results.load("a"), ledger.load("a"), attempts.load("a")) == (1, None, None)


def test_one_who_only_looks_sees_what_another_writes(place: Place, opened: Any) -> None:
    one, two = (opened(open_result_store, place.url, namespace=place.namespace) for _ in range(2))
    assert two.load("a") is None
    for value in ({"n": 1}, {"n": 2}):
        one.save("a", value)
        assert two.load("a") == value
    two.delete("a")
    assert one.load("a") is None


def test_a_closed_store_says_so_and_closing_twice_is_harmless(place: Place) -> None:
    store = open_result_store(place.url, namespace=place.namespace)
    store.save("a", 1)
    for _ in range(2):
        store.close()
    for use in (lambda: store.load("a"), lambda: store.save("a", 2), store.keys):
        with pytest.raises(QueueStoreClosedError, match=r"the result store at .* is closed"):
            use()


def test_times_are_those_of_the_server(place: Place, opened: Any) -> None:
    store = opened(open_idempotency_store, place.url, namespace=place.namespace, clock=lambda: 5000.0)
    assert store.now() == 5000.0


@pytest.mark.server
def test_a_locked_server_is_named_by_the_kind_of_store(opened: Any) -> None:
    """What the queue store says, in the words of the ledger."""
    place = new_place("postgres", Path())
    ledger = opened(open_idempotency_store, place.url, namespace=place.namespace, connections=1)
    ledger.save("a", IdempotencyRecord.pending())
    ledger.store._pool._timeout = 0.05
    with ledger.store._pool.connection(), pytest.raises(IdempotencyStoreLockedError, match="connections") as failure:
        ledger.load("a")
    assert isinstance(failure.value, QueueStoreLockedError)


def test_a_worker_keeps_ledger_results_and_outbox_on_a_server(place: Place, tmp_path: Path, opened: Any) -> None:
    where = {"namespace": place.namespace}
    ledger, results = opened(open_idempotency_store, place.url, **where), opened(open_result_store, place.url, **where)
    outbox = opened(open_result_store, place.url, namespace=f"{place.namespace}-outbox")
    with SQLiteQueueStore(tmp_path / "queue.sqlite3") as store:
        queue: PersistentQueue[Any] = PersistentQueue(
            "jobs",
            store=store,
            delivery_policy=EffectivelyOnceDelivery(
                idempotency_store=ledger,
                result_policy=ReturnStoredResult(result_store=results),
                commit_policy=TransactionalOutboxCommit(outbox_store=outbox),
            ),
        )
        calls: list[Any] = []

        def handle(value: Any) -> dict[str, Any]:
            calls.append(value)
            return {"handled": value}

        for _ in range(2):  # the second time it is a duplicate
            queue.put("x", dedupe_key="key")
            Worker(queue, handle).run_until_empty(signals=False)
        assert calls == ["x"]
        assert results.load("dedupe:jobs:key") == {"handled": "x"}
        found = ledger.load("jobs:key")
        assert (found.status, found.result_key) == ("succeeded", "dedupe:jobs:key")
        sent: list[Any] = []
        OutboxRelay(queue, sent.append).run_until_empty(signals=False)
        assert len(sent) == 1 and outbox.keys() == []
    assert ledger.prune_completed(older_than=0, now=ledger.now() + 1) == 1


def test_a_queue_on_the_store_of_a_ledger_shares_its_commits(place: Place, opened: Any) -> None:
    """The ledger in the queue's own store marks nothing while the handler runs: the ack brings the record."""
    ledger = opened(open_idempotency_store, place.url, namespace=place.namespace)
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=ledger.store, delivery_policy=EffectivelyOnceDelivery(idempotency_store=ledger)
    )
    assert ledger.is_in(queue.store)
    during: list[Any] = []
    queue.put("x", dedupe_key="key")
    Worker(queue, lambda value: during.append(ledger.load("jobs:key"))).run_until_empty(signals=False)
    assert during == [None]
    assert ledger.load("jobs:key").status == "succeeded"


def test_retries_are_counted_on_a_server(place: Place, opened: Any) -> None:
    attempts = opened(open_attempt_store, place.url, namespace=place.namespace)
    retrying = PersistentRetrying(store=attempts, key="call", max_tries=3, wait=0)

    def fail() -> None:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        retrying(fail)
    found = attempts.load("call")
    assert isinstance(found, RetryRecord)
    assert (found.attempts, found.exhausted) == (3, True)
    assert attempts.prune_exhausted(older_than=0, now=attempts.now() + 1) == 1
