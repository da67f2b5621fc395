"""What tasks leave for a commit, and a commit that happens once, on every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from localqueue.errors import QueueStoreUnavailableError, RecordConflict
from localqueue.spark.sink import (
    ledger,
    staged_rows,
)
from localqueue.spark.sink.delivery import (
    Step,
    WrittenElsewhere,
    deliver_part,
    deliver_staged,
    finish_parts,
    step_of,
)
from localqueue.spark.sink.staged_rows import Chunk, JobAborted, StagedRowsGone
from localqueue.spark.sink.target import Target
from localqueue.stores.port import Changes, QueueStore, RecordWrite
from tests.stores import OPENERS, new_place

KEY = "query:jobs"
JOBS = Target(queue="jobs")


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    store = new_place(request.param, tmp_path).open()
    yield store
    store.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[QueueStore]:
    """For what is decided before any store is asked."""
    store = new_place("memory", tmp_path).open()
    yield store
    store.close()


def rows(first: int, count: int, **options: Any) -> Any:
    values = {"value": [str(number) for number in range(first, first + count)]}
    return pa.record_batch(values | {name: [value] * count for name, value in options.items()})


def staged(store: QueueStore, batch: int, *batches: Any) -> list[Chunk]:
    """Each batch as a chunk of its own."""
    token = staged_rows.batch_token("query", batch)
    return [chunk for one in batches for chunk in staged_rows.stage(store, token, [one])]


def of(rows: int | None) -> Step | None:
    return None if rows is None else Step(rows, 1000)


def deliver(store: QueueStore, batch: int, chunks: list[Chunk], step: int | None = None) -> bool:
    done = deliver_staged(store, key=KEY, batch=batch, chunks=chunks, target=JOBS, step=of(step))
    return done is not None


def values(store: QueueStore, queue: str = "jobs") -> list[int]:
    return [json.loads(message.payload) for message in store.scan(queue)]


def left_behind(store: QueueStore) -> list[str]:
    return [record.key for record in store.records(staged_rows.KIND)]


class Dies:
    """A store whose driver dies after so many puts."""

    def __init__(self, store: QueueStore, puts: int) -> None:
        self._store = store
        self._puts = puts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_pages(self, *args: Any, **options: Any) -> Any:
        if self._puts == 0:
            raise QueueStoreUnavailableError("the driver died")
        self._puts -= 1
        return self._store.put_pages(*args, **options)


def test_staged_rows_are_not_messages_until_they_are_committed_and_then_nothing_is_left(store: QueueStore) -> None:
    chunks = staged(store, 0, rows(0, 3), rows(3, 2))
    assert values(store) == [] and len(left_behind(store)) == 2
    assert deliver(store, 0, chunks)
    assert values(store) == [0, 1, 2, 3, 4]
    assert left_behind(store) == []


def test_a_batch_that_is_written_again_is_in_the_queue_once(store: QueueStore) -> None:
    assert deliver(store, 0, staged(store, 0, rows(0, 2)))
    assert deliver(store, 1, staged(store, 1, rows(2, 2)))
    for batch in (0, 1):
        assert not deliver(store, batch, staged(store, batch, rows(90, 5)))
    staged_rows.sweep(store, "query")
    assert (values(store), left_behind(store)) == ([0, 1, 2, 3], [])


def test_rows_carry_their_options_and_a_dedupe_key_that_is_held_makes_a_duplicate(store: QueueStore) -> None:
    store.put_one("jobs", "0", None)
    rich = pa.record_batch(
        {
            "value": ["1", "2", "3", "4", "5"],
            "queue": [None, None, None, "other", None],
            "headers": ['{"a":"b"}', None, None, None, None],
            "priority": pa.array([5, None, None, None, None], pa.int64()),
            "delay": [None, None, None, None, 1000.0],
            "dedupe_key": ["same", "same", "its own", "same", None],
            "ordering_key": [None, None, "line", None, None],
            "run_id": [None, None, "run", None, None],
        }
    )
    assert deliver(store, 0, staged(store, 0, rich, rows(6, 1)))
    found = {json.loads(one.payload): one for one in store.scan("jobs")}
    assert sorted(found) == [0, 1, 3, 5, 6]
    assert values(store, "other") == [4]
    assert (found[1].headers, found[1].priority, found[1].dedupe_key) == ('{"a":"b"}', 5, "same")
    assert (found[3].ordering_key, found[3].run_id) == ("line", "run")
    assert (found[5].state, found[6].state) == ("delayed", "ready")
    deliver(store, 1, staged(store, 1, rich.slice(2, 1)))
    assert sorted(values(store)) == [0, 1, 3, 5, 6]


def test_a_batch_in_several_transactions_is_finished_from_the_rows_it_began_with(store: QueueStore) -> None:
    first = staged(store, 0, rows(0, 2), rows(2, 2), rows(4, 2))
    with pytest.raises(QueueStoreUnavailableError):
        deliver(Dies(store, 2), 0, first, step=2)  # type: ignore[arg-type]
    assert values(store) == [0, 1, 2, 3]
    again = staged(store, 0, rows(4, 2), rows(2, 2), rows(0, 2))
    begun = ledger.read(store, KEY).chunks or ()
    staged_rows.sweep(store, staged_rows.batch_token("query", 0), keep={chunk.key for chunk in begun})
    assert left_behind(store) == [first[2].key], "an abort leaves what was begun with"
    again = staged(store, 0, rows(4, 2), rows(2, 2), rows(0, 2))
    assert deliver(store, 0, again, step=2)
    staged_rows.sweep(store, "query")
    assert (values(store), left_behind(store)) == ([0, 1, 2, 3, 4, 5], [])
    assert not deliver(store, 0, again, step=2)


def test_a_driver_that_was_taken_over_amid_a_batch_is_refused(memory: QueueStore) -> None:
    chunks = staged(memory, 0, rows(0, 1), rows(1, 1), rows(2, 1))

    class TakenOver(Dies):
        def put_pages(self, *args: Any, **options: Any) -> Any:
            put = super().put_pages(*args, **options)
            if self._puts == 0:
                memory.commit(Changes(records=[ledger.read(memory, KEY).amid(0, chunks, 1, "another")]))
            return put

    with pytest.raises(WrittenElsewhere, match="batch 0 of 'query:jobs' is being written by another driver"):
        deliver(TakenOver(memory, 1), 0, chunks, step=1)  # type: ignore[arg-type]
    assert deliver(memory, 0, [], step=1)
    assert values(memory) == [0, 1, 2]


def test_a_write_goes_in_steps_where_the_caller_or_the_store_wants_it() -> None:
    assert step_of("sqlite", "atomic") is None and step_of("pg", "direct") is None
    short = step_of("sqlite", "steps")
    assert short is not None
    assert step_of("redis", "atomic") == step_of("mongodb", "direct") == short


def test_a_transaction_is_bounded_in_rows_and_bytes(memory: QueueStore) -> None:
    class Counts(Dies):
        def put_pages(self, pages: Any, **options: Any) -> Any:
            sizes.append(sum(len(page.payload) for page in pages))
            return super().put_pages(pages, **options)

    sizes: list[int] = []
    wide = pa.record_batch({"value": ['"' + "x" * 700 + '"']})
    chunks = staged(memory, 0, rows(0, 2), rows(2, 3), rows(5, 1), wide, wide)
    deliver(Counts(memory, 9), 0, chunks, step=5)  # type: ignore[arg-type]
    assert sizes == [5, 2, 1]


def test_what_was_begun_of_an_earlier_batch_is_finished_first(memory: QueueStore) -> None:
    with pytest.raises(QueueStoreUnavailableError):
        deliver(Dies(memory, 1), 0, staged(memory, 0, rows(0, 1), rows(1, 1)), step=1)  # type: ignore[arg-type]
    assert deliver(memory, 1, staged(memory, 1, rows(2, 1)))
    assert values(memory) == [0, 1, 2]


def test_of_two_drivers_that_write_the_same_batch_one_wins(store: QueueStore) -> None:
    chunks, twins = staged(store, 0, rows(0, 2)), staged(store, 0, rows(0, 2))

    class Beaten(Dies):
        def put_pages(self, *args: Any, **options: Any) -> Any:
            if self._puts:
                self._puts = 0
                assert deliver(store, 0, twins)
            return self._store.put_pages(*args, **options)

    assert not deliver(Beaten(store, 1), 0, chunks)  # type: ignore[arg-type]
    assert values(store) == [0, 1]


def test_rows_that_are_gone_fail_a_commit_unless_they_are_in_the_queue(memory: QueueStore) -> None:
    chunks = staged(memory, 0, rows(0, 2))
    staged_rows.sweep(memory, "query")
    with pytest.raises(StagedRowsGone, match="another driver has committed or aborted"):
        deliver(memory, 0, chunks)
    assert values(memory) == [] and ledger.read(memory, KEY).version == 0


def test_a_job_without_a_key_has_no_ledger(memory: QueueStore) -> None:
    for _ in range(2):
        chunks = staged_rows.stage(memory, staged_rows.job_token(), [rows(0, 2)])
        assert deliver_staged(memory, key=None, batch=0, chunks=chunks, target=JOBS, step=None)
    assert values(memory) == [0, 1, 0, 1]
    assert memory.records(ledger.KIND) == [] and left_behind(memory) == []


def test_chunks_keep_the_order_and_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_rows, "CHUNK_ROWS", 100)
    monkeypatch.setattr(staged_rows, "CHUNK_BYTES", 10_000)
    wide = pa.record_batch({"value": [str(n) + "x" * 3000 for n in range(10)]})
    tables = list(staged_rows.cut([rows(0, 70), rows(70, 70), rows(140, 0), rows(140, 950), wide]))
    texts = [text for table in tables for text in table.column("value").to_pylist()]
    assert texts == [str(n) for n in range(1090)] + wide.column("value").to_pylist()
    assert all(0 < table.num_rows <= 100 and table.nbytes <= 10_000 for table in tables)
    assert list(staged_rows.cut([])) == []


def test_rows_with_and_without_an_option_share_a_chunk() -> None:
    (table,) = staged_rows.cut([rows(0, 1), rows(1, 1, priority=3), rows(2, 1)])
    assert table.column("priority").to_pylist() == [None, 3, None]


def test_sweeping_leaves_what_belongs_to_others(store: QueueStore) -> None:
    kept = [
        staged_rows.stage(store, token, [rows(0, 1)])[0].key
        for token in ("query-2:000000000000", "quer:000000000000", staged_rows.job_token())
    ]
    staged(store, 3, rows(0, 1))
    staged(store, 4, rows(0, 1))
    assert staged_rows.sweep(store, "query") == 2
    assert left_behind(store) == sorted(kept)


def test_a_task_that_outlives_its_job_stages_nothing_more(store: QueueStore) -> None:
    job, other = staged_rows.job_token(), staged_rows.job_token()
    staged_rows.stage(store, job, [rows(0, 1)], job=job)
    staged_rows.abort(store, job, job=job)
    with pytest.raises(JobAborted):
        staged_rows.stage(store, job, [rows(1, 1)], job=job)
    (kept,) = staged_rows.stage(store, other, [rows(2, 1)], job=other)
    assert left_behind(store) == [kept.key]


def test_what_a_dead_job_left_is_swept_a_day_later(tmp_path: Path) -> None:
    now = [1_000_000.0]
    with new_place("sqlite", tmp_path).open(clock=lambda: now[0]) as store:
        staged_rows.stage(store, staged_rows.job_token(), [rows(0, 1)])
        staged(store, 0, rows(0, 1))
        assert staged_rows.sweep_abandoned(store) == 0
        now[0] += staged_rows.ABANDONED + 1
        young = staged_rows.stage(store, staged_rows.job_token() + "f", [rows(0, 1)])
        assert staged_rows.sweep_abandoned(store) == 1
        assert young[0].key in left_behind(store) and len(left_behind(store)) == 2


def put_part(store: QueueStore, *tables: Any, step: int | None = None, part: str = "query:000000000000:000001") -> bool:
    made = [pa.Table.from_batches([one]) for one in tables]
    done = deliver_part(store, key=KEY, batch=0, part=part, tables=made, target=JOBS, step=of(step))
    return done is not None


def test_a_partition_that_is_delivered_directly_is_in_the_queue_once(store: QueueStore) -> None:
    assert put_part(store, rows(0, 2), rows(2, 1))
    assert not put_part(store, rows(0, 2), rows(2, 1))
    assert put_part(store, rows(3, 1), part="query:000000000000:000002")
    assert values(store) == [0, 1, 2, 3]
    finish_parts(store, key=KEY, batch=0, family="query")
    assert store.records(ledger.PART_KIND) == []
    assert not put_part(store, rows(0, 2), rows(2, 1)), "the ledger remembers what the partitions' records said"
    finish_parts(store, key=KEY, batch=0, family="query")
    assert values(store) == [0, 1, 2, 3]


def test_a_partition_in_several_transactions_goes_on_behind_the_rows_it_has_put(store: QueueStore) -> None:
    with pytest.raises(QueueStoreUnavailableError):
        put_part(Dies(store, 1), rows(0, 3), rows(3, 3), step=3)  # type: ignore[arg-type]
    assert put_part(store, rows(0, 2), rows(2, 4), step=3)
    assert values(store) == [0, 1, 2, 3, 4, 5]


def test_a_partition_that_seemed_to_end_early_goes_on_when_it_is_computed_again(memory: QueueStore) -> None:
    assert put_part(memory, rows(0, 2))
    assert put_part(memory, rows(0, 3), rows(3, 1))
    assert not put_part(memory, rows(0, 4))
    assert values(memory) == [0, 1, 2, 3]


def test_a_twin_of_a_task_puts_only_what_the_other_has_not(memory: QueueStore) -> None:
    class Beaten(Dies):
        def put_pages(self, *args: Any, **options: Any) -> Any:
            if self._puts:
                self._puts = 0
                assert put_part(memory, rows(0, 2))
            return self._store.put_pages(*args, **options)

    assert put_part(Beaten(memory, 1), rows(0, 3))  # type: ignore[arg-type]
    assert values(memory) == [0, 1, 2]


def test_a_put_in_a_store_that_refuses_the_ledger_stores_nothing(store: QueueStore) -> None:
    chunks = staged(store, 0, rows(0, 2))
    stale = ledger.read(store, KEY)
    store.commit(Changes(records=[RecordWrite(ledger.KIND, KEY, b'{"batch": -1}')]))
    with pytest.raises(RecordConflict):
        store.put_batch("jobs", ["1"], None, records=[stale.finished(0), *staged_rows.removals(chunks)])
    assert values(store) == [] and len(left_behind(store)) == 1
