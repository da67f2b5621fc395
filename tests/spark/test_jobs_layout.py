"""What jobs decide without Spark: which spans of an archive count, what is merged, how fast messages are put."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs.archive_layout import (
    Marker,
    Part,
    Span,
    archived_to,
    cover,
    disagreement,
    merges,
    span_name,
    span_of,
    superseded,
)
from localqueue.spark.jobs.arguments import moment
from localqueue.spark.jobs.files import LocalFolder, files_in, size_of
from localqueue.spark.jobs.latest import json_path
from localqueue.spark.jobs.paced_puts import KIND, Way, check_rate, put_paced, slices, way_of
from localqueue.spark.jobs.staged_files import known_format, sweep
from localqueue.spark.jobs.table_files import format_of
from localqueue.stores.port import Changes, NewMessage, RecordWrite
from localqueue.stores.sqlite import MemoryQueueStore


def span(first: int, last: int, mark: str = "aa", size: int = 10) -> Span:
    return Span(first, last, span_name(first, last, mark), size)


def test_the_name_of_a_span_tells_its_range() -> None:
    assert span_of(span_name(7, 12_000, "0f")) == Span(7, 12_000, "span=0000000000000000007-0000000000000012000-0f")
    for name in ("span=7", "_writing", "span=12-7-aa", "span=0-7-aa", "date=2026-01-01", "span=1-2-aa.tmp"):
        assert span_of(name) is None


def test_a_span_can_not_be_empty() -> None:
    with pytest.raises(ValueError, match="not 8 to 7"):
        span_name(8, 7, "aa")


def test_spans_inside_a_bigger_one_are_not_read() -> None:
    spans = [span(1, 10), span(11, 20), span(1, 20, "bb"), span(21, 30)]
    assert cover(spans) == [Part(spans[2], 0), Part(spans[3], 20)]
    assert superseded(spans) == spans[:2]
    assert archived_to(spans) == 30


def test_of_spans_that_overlap_each_entry_is_read_once() -> None:
    first, second = span(1, 10), span(6, 15)
    assert cover([second, first]) == [Part(first, 0), Part(second, 10)]
    assert not cover([second, first])[1].whole


def test_any_set_of_spans_is_covered_without_a_double() -> None:
    dice = random.Random(1)
    for _ in range(500):
        spans = []
        for number in range(dice.randint(1, 12)):
            first = dice.randint(1, 40)
            spans.append(span(first, first + dice.randint(0, 20), f"{number:02x}"))
        read = [seq for part in cover(spans) for seq in range(max(part.span.first, part.after + 1), part.span.last + 1)]
        assert sorted(read) == sorted({seq for one in spans for seq in range(one.first, one.last + 1)}), spans
        kept = [one for one in spans if one not in superseded(spans)]
        assert cover(kept) == cover(spans)


def test_neighbours_are_merged_until_they_are_large_enough() -> None:
    small = [span(10 * n + 1, 10 * n + 10, size=40) for n in range(6)]
    groups = merges(cover(small), 100)
    assert [[part.span for part in group] for group in groups] == [small[:3], small[3:]]


def test_large_spans_and_single_ones_are_left_alone() -> None:
    spans = [span(1, 10, size=500), span(11, 20, size=3), span(21, 30, size=500), span(31, 40, size=3), span(41, 50)]
    assert [[part.span for part in group] for group in merges(cover(spans), 100)] == [spans[3:]]


def test_spans_are_not_merged_over_a_gap() -> None:
    spans = [span(1, 10), span(15, 20), span(21, 25)]
    assert [[part.span for part in group] for group in merges(cover(spans), 100)] == [spans[1:]]


def test_a_marker_that_disagrees_says_in_what() -> None:
    marker = Marker(kind="journal", format="parquet", view="events", store="sqlite:///a.db", namespace="default")
    assert Marker.of(marker.text()) == marker
    assert Marker.of('{"localqueue": "view"}') is None
    assert Marker.of("[1]") is None
    assert disagreement(marker, marker) is None
    other = Marker(kind="journal", format="parquet", view="events", store="sqlite:///b.db", namespace="default")
    assert "store 'sqlite:///a.db' and not 'sqlite:///b.db'" in (disagreement(marker, other) or "")


def test_files_appear_whole_under_names_that_nothing_has(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path / "a b"))
    assert folder.entries() == []
    assert folder.read("note") is None
    folder.write("x/note", "é")
    folder.write("x/_hidden", "1")
    assert folder.read("x/note") == "é"
    assert [name for name, _ in files_in(folder)] == ["x/note"]
    assert size_of(folder, "x") == 2
    folder.rename("x", "y/z")
    with pytest.raises(FileExistsError):
        folder.rename("y", "y/z")
    folder.remove("y")
    assert folder.entries() == []


def test_a_file_uri_is_the_same_folder() -> None:
    assert LocalFolder("file:///tmp/x").path == LocalFolder("file:/tmp/x").path == LocalFolder("/tmp/x").path


def test_only_the_leavings_of_the_long_dead_are_swept(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path))
    folder.write("_writing/1000-aa/part", "")
    folder.write("_writing/90000-bb/part", "")
    assert sweep(folder, now=90_001) == 1
    assert [entry.name for entry in folder.entries("_writing")] == ["90000-bb"]


def test_the_format_is_read_off_the_name() -> None:
    names = ("a/b.json", "b.JSONL", "c.csv.gz", "d.tsv", "e.parquet", "f.orc", "g.txt", "folder", "h.bin")
    assert [format_of(name) for name in names] == [
        "json", "json", "csv", "csv", "parquet", "orc", "text", None, None,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="one of parquet, delta, json, csv, not 'avro'"):
        known_format("avro")


def test_a_field_of_the_payload_is_spelled_as_spark_does() -> None:
    assert json_path("user.id") == json_path("$.user.id") == "$['user']['id']"
    for wrong in ("", "a..b", "a[0]", "it's"):
        with pytest.raises(ValueError, match="a field of the payload"):
            json_path(wrong)


def test_a_moment_needs_its_zone() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (
        moment("since", "2026-01-31T13:00:00+01:00") == moment("since", noon) == moment("x", noon.timestamp()) == noon
    )
    for wrong in ("2026-01-31T12:00:00", "noon", True, float("nan")):
        with pytest.raises(ValueError, match="since must be a time with its zone"):
            moment("since", wrong)


def test_a_rate_sets_the_size_of_slices() -> None:
    rows = [(2 * n, n) for n in range(7_000)]
    assert [(last, len(part)) for last, part in slices(rows[:10], 16)] == [(6, 4), (14, 4), (18, 2)]
    assert [(last, len(part)) for last, part in slices(rows, None)] == [(9_998, 5_000), (13_998, 2_000)]
    assert [part for _, part in slices(rows[:2], 0.5)] == [[0], [1]]
    with pytest.raises(ValueError, match="rate must be"):
        check_rate(0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def putter(store: Any, queue: str, fail_at: int | None = None) -> Any:
    def put(rows: Any, records: Any) -> int:
        if rows and fail_at is not None and fail_at in rows:
            raise OSError("the machine went down")
        rows = rows or ()
        ids = store.mint(len(rows)) if rows else []
        new = [NewMessage(id=one, queue=queue, payload=str(row)) for one, row in zip(ids, rows, strict=True)]
        store.commit(Changes(enqueue=new, records=records))
        return len(rows)

    return put


def test_messages_are_put_no_faster_than_the_rate() -> None:
    clock = Clock()
    with MemoryQueueStore() as store:
        rows = [(n, n) for n in range(1, 101)]
        put = put_paced(
            store, Way(key="k", last=100), slices(rows, 20), putter(store, "q"), rate=20, clock=clock, sleep=clock.sleep
        )
        assert put == store.qsize("q") == 100
    assert clock.now == pytest.approx(95 / 20)


def test_a_job_that_died_goes_on_behind_its_last_slice() -> None:
    clock = Clock()
    rows = [(n, n) for n in range(1, 101)]
    with MemoryQueueStore() as store:
        with pytest.raises(OSError, match="went down"):
            put_paced(
                store, Way(key="k", last=100), slices(rows, 20), putter(store, "q", fail_at=42), rate=20, clock=clock,
                sleep=clock.sleep,
            )  # fmt: skip
        way = way_of(store, "k")
        assert way is not None
        assert (way.through, way.last, way.done) == (40, 100, False)
        put_paced(store, way, slices(rows[way.through :], None), putter(store, "q"))
        assert sorted(int(one.payload) for one in store.scan("q")) == list(range(1, 101))
        done = way_of(store, "k")
        assert done is not None
        assert done.done


def test_of_two_runs_of_a_job_one_is_refused_and_puts_nothing_more() -> None:
    with MemoryQueueStore() as store:
        way = Way(key="k", last=3)

        def rows() -> Any:
            yield 1, 1
            store.commit(Changes(records=[RecordWrite(KIND, "k", way.record("the other").value)]))
            yield from ((n, n) for n in range(2, 3_000))

        with pytest.raises(RuntimeError, match="another run of 'k'"):
            put_paced(store, way, slices(rows(), None), putter(store, "q"))
        assert store.qsize("q") == 0
