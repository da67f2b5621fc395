"""A write without a key that goes in several transactions: all of it is in the queue or, when it fails, nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from localqueue.errors import QueueStoreUnavailableError
from localqueue.spark.options import parse
from localqueue.spark.sink import delivery, ledger, open_writes, staged_rows
from localqueue.spark.sink.delivery import Step, WrittenElsewhere, deliver_staged
from localqueue.spark.sink.open_writes import RECEIPT_KIND, undo_dead
from localqueue.spark.sink.staged_rows import Chunk
from localqueue.spark.sink.target import NoRoom, Target
from localqueue.spark.sink.writers import BatchSink
from localqueue.stores.port import Changes, LeaseRequest, QueueStore
from tests.spark.test_sink import ONE_TEXT, debris, options_of
from tests.spark.test_sink import rows as texts
from tests.stores import OPENERS, new_place

JOBS = Target(queue="jobs")
TWO = Step(2, 1000)


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    store = new_place(request.param, tmp_path).open()
    yield store
    store.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[QueueStore]:
    store = new_place("memory", tmp_path).open()
    yield store
    store.close()


class Killed(BaseException):
    """The end of a driver that gets to do nothing more."""


class Failing:
    """A store whose n-th put fails, before it is done or, when only the answer is lost, after."""

    def __init__(self, store: QueueStore, at: int, error: BaseException, *, after: bool = False) -> None:
        self._store, self._left, self._error, self._after = store, at, error, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_pages(self, *args: Any, **options: Any) -> Any:
        self._left -= 1
        if self._left:
            return self._store.put_pages(*args, **options)
        if self._after:
            self._store.put_pages(*args, **options)
        raise self._error


def staged(store: QueueStore, count: int, job: str, **options: Any) -> list[Chunk]:
    """Rows 0, 1, 2, ... in chunks of two."""
    made = []
    for first in range(0, count, 2):
        numbers = range(first, min(first + 2, count))
        columns = {"value": [str(n) for n in numbers]}
        columns |= {name: [f"{value}{n}" for n in numbers] for name, value in options.items()}
        made += staged_rows.stage(store, job, [pa.record_batch(columns)])
    return made


def write(store: Any, chunks: list[Chunk], job: str = "job:1", target: Target = JOBS) -> Any:
    return deliver_staged(store, key=None, batch=0, chunks=chunks, target=target, step=TWO, job=job)


def values(store: QueueStore, queue: str = "jobs") -> list[int]:
    return [json.loads(message.payload) for message in store.scan(queue)]


def left(store: QueueStore) -> list[str]:
    kinds = (ledger.KIND, RECEIPT_KIND, staged_rows.KIND)
    return [record.key for kind in kinds for record in store.records(kind)]


@pytest.mark.parametrize("options", [{}, {"dedupe_key": "d", "ordering_key": "o"}])
def test_what_a_failed_write_had_put_is_taken_back_and_run_again_it_is_there_once(
    store: QueueStore, options: dict[str, str]
) -> None:
    store.put_one("jobs", "99", None)
    with pytest.raises(ValueError, match="broken"):
        write(Failing(store, 3, ValueError("broken")), staged(store, 6, "job:1", **options))
    assert values(store) == [99] and left(store) == []
    done = write(store, staged(store, 6, "job:2", **options), "job:2")
    assert (done.stored, done.duplicates) == (6, 0)
    assert values(store) == [99, 0, 1, 2, 3, 4, 5] and left(store) == []


def test_what_a_killed_driver_had_put_is_taken_back_before_the_next_write(
    store: QueueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fanout = Target(queue="news", subscribers=("a", "b"))
    for target in (JOBS, fanout):
        with pytest.raises(Killed):
            write(Failing(store, 3, Killed()), staged(store, 6, "job:1"), target=target)
    assert values(store) == values(store, "news.b") == [0, 1, 2, 3]
    (taken,) = store.lease(LeaseRequest("jobs"))
    monkeypatch.setattr(open_writes, "SILENT_FOR", 0.0)
    write(store, staged(store, 6, "job:2"), "job:2")
    assert sorted(values(store)) == sorted([json.loads(taken.payload), *range(6)]), "what somebody works on stays"
    assert values(store, "news.a") == values(store, "news.b") == []
    assert left(store) == []
    assert store.check().ok


@pytest.mark.parametrize("count", [2, 6])
def test_a_write_whose_last_answer_is_lost_is_done(store: QueueStore, count: int) -> None:
    steps = count // 2
    lost = Failing(store, steps, QueueStoreUnavailableError("the server went away"), after=True)
    assert write(lost, staged(store, count, "job:1")).stored == count
    assert values(store) == list(range(count)) and left(store) == []
    unreached = Failing(store, steps, QueueStoreUnavailableError("the server went away"))
    with pytest.raises(QueueStoreUnavailableError):
        write(unreached, staged(store, count, "job:2"), "job:2")
    assert values(store) == list(range(count))


def test_where_the_store_is_gone_the_next_write_takes_it_back(
    memory: QueueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Failing):
        def record(self, *args: Any) -> Any:
            if self._left <= 0:
                raise QueueStoreUnavailableError("still away")
            return self._store.record(*args)

    with pytest.raises(QueueStoreUnavailableError, match="went away"):
        write(Gone(memory, 2, QueueStoreUnavailableError("went away")), staged(memory, 6, "job:1"))
    assert values(memory) == [0, 1]
    undo_dead(memory)
    assert values(memory) == [0, 1], "its driver may live"
    monkeypatch.setattr(open_writes, "SILENT_FOR", 0.0)
    undo_dead(memory)
    assert values(memory) == [] and left(memory) == []


@pytest.mark.parametrize("at", [2, 3])
def test_a_write_that_others_took_for_dead_is_refused(
    memory: QueueStore, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(open_writes, "SILENT_FOR", 0.0)

    class Slow(Failing):
        def put_pages(self, *args: Any, **options: Any) -> Any:
            if self._left == 2:
                undo_dead(memory)
            return super().put_pages(*args, **options)

    with pytest.raises(WrittenElsewhere, match="another one has taken back what it had put: run it again"):
        write(Slow(memory, at, QueueStoreUnavailableError("went away")), staged(memory, 6, "job:1"))
    assert values(memory) == [] and left(memory) == []


def test_a_later_write_waits_until_it_is_known_whether_an_earlier_one_lives(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    with place.open() as store, place.open() as other:
        with pytest.raises(Killed):
            write(Failing(store, 2, Killed()), staged(store, 6, "job:1"))
        (record,) = store.records(ledger.KIND)
        later = threading.Thread(target=write, args=(other, staged(store, 2, "job:2"), "job:2"))
        later.start()
        later.join(0.2)
        assert later.is_alive() and values(store) == [0, 1]
        entry = ledger.entry_of(record)
        store.commit(Changes(records=[entry.amid(0, entry.chunks or (), entry.done, "alive")]))
        later.join(30)
        assert not later.is_alive() and values(store) == [0, 1, 0, 1], "that of one that lives is its own"


@pytest.mark.parametrize("kind", ["redis", "mongodb"])
def test_a_job_whose_commit_fails_on_a_server_leaves_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place(kind, tmp_path)
    monkeypatch.setattr(delivery, "_SHORT", TWO)
    options = parse({**options_of(place), "maxsize": "3"})
    for _ in range(2):
        sink = BatchSink(options, ONE_TEXT)
        written = [sink.write(texts(str(n), str(n + 1))) for n in range(0, 6, 2)]
        with pytest.raises(NoRoom, match="and has 0: there is room for 3 of 6 rows, and nothing was stored"):
            sink.commit(written)
        sink.abort(written)
        with place.open() as store:
            assert values(store) == [] and left(store) == [] == debris(place)
