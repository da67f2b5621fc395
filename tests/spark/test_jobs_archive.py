"""Archives of the journal: incremental, exactly once, merged and pruned; and one-off exports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

from localqueue.spark.jobs import delta_table, parquet_archive
from localqueue.spark.jobs.archive import archive, read_archive
from localqueue.spark.jobs.export import export
from localqueue.spark.jobs.files import HadoopFolder, files_in, folder_at
from localqueue.spark.jobs.journal_rows import journal_rows, place_of, utc_date
from localqueue.spark.jobs.staged_files import stage
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.url import open_store


class Journal:
    """A SQLite store whose journal is on."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        with self.open() as store:
            store.enable_journal()

    def open(self) -> Any:
        return open_store(self.url)

    def put(self, *values: str, queue: str = "jobs", **options: Any) -> None:
        with self.open() as store:
            ids = store.mint(len(values))
            new = [NewMessage(id=one, queue=queue, payload=v, **options) for one, v in zip(ids, values, strict=True)]
            store.commit(Changes(enqueue=new))

    def seqs(self) -> list[int]:
        with self.open() as store:
            return [event.seq for event in store.events()]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def archived(spark: Any, path: Path) -> list[int]:
    return sorted(row["seq"] for row in read_archive(spark, path).select("seq").collect())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_each_run_appends_what_is_new_and_nothing_twice(
    spark: Any, journal: Journal, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive"
    journal.put('{"n":1}', "2", priority=3, headers='{"trace":"a"}', ordering_key="k")
    journal.put("3", queue="other")
    first = archive(spark, url=journal.url, path=path, format=format)
    assert (first.rows, first.first, first.last) == (3, 1, 3)
    assert str(first).startswith("archived 3 entries (seq 1 to 3)")
    assert archive(spark, url=journal.url, path=path, format=format).rows == 0

    journal.put("4", codec="pickle")
    with monkeypatch.context() as patch:  # killed between the writing and the commit
        target = delta_table if format == "delta" else parquet_archive
        step = "table_at" if format == "delta" else "span_name"
        calls = []

        def kill(*args: Any) -> Any:
            calls.append(args)
            if format == "parquet" or len(calls) > 1:
                raise Killed
            return original(*args)

        original = getattr(target, step)
        patch.setattr(target, step, kill)
        with pytest.raises(Killed):
            archive(spark, url=journal.url, path=path, format=format)
    assert archived(spark, path) == [1, 2, 3]
    second = archive(spark, url=journal.url, path=path, format=format)
    assert (second.rows, second.first, second.last) == (1, 4, 4)

    rows = {row["seq"]: row for row in read_archive(spark, path).collect()}
    assert sorted(rows) == [1, 2, 3, 4]
    assert rows[1]["value"] == '{"n":1}'
    assert rows[1]["payload"] is None
    assert (rows[1]["headers"], rows[1]["priority"], rows[1]["ordering_key"]) == ({"trace": "a"}, 3, "k")
    assert (rows[4]["value"], rows[4]["codec"], bytes(rows[4]["payload"])) == (None, "pickle", b"4")
    assert str(rows[4]["date"]) == rows[4]["at"].strftime("%Y-%m-%d")


def test_small_spans_are_merged_and_a_merge_that_was_interrupted_doubles_nothing(
    spark: Any, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive"
    for number in range(4):
        journal.put(str(number))
        archive(spark, url=journal.url, path=path, compact_after=10)
    folder = folder_at(spark, path)
    assert len(parquet_archive.spans_in(folder)) == 4

    with monkeypatch.context() as patch:  # killed after the commit of the merge, before the old spans are removed
        patch.setattr(type(folder), "remove", lambda self, name: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            parquet_archive.merge_spans(spark, folder, "date", after=2)
    assert len(parquet_archive.spans_in(folder)) == 5
    assert archived(spark, path) == [1, 2, 3, 4]

    journal.put("again")
    result = archive(spark, url=journal.url, path=path, compact_after=1)
    assert result.merged == 2
    assert [(span.first, span.last) for span in parquet_archive.spans_in(folder)] == [(1, 5)]
    assert archived(spark, path) == [1, 2, 3, 4, 5]
    assert sorted(row["value"] for row in read_archive(spark, path).collect()) == ["0", "1", "2", "3", "again"]


def test_two_archivers_at_a_time_double_nothing(
    spark: Any, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive"
    journal.put("1", "2", "3")
    archive(spark, url=journal.url, path=path)
    folder = folder_at(spark, path)
    rows = read_archive(spark, path)
    parquet_archive.add_span(rows.where("seq <= 2"), folder, 1, 2, "date")  # one that began earlier
    journal.put("4")
    archive(spark, url=journal.url, path=path)
    parquet_archive.add_span(read_archive(spark, path).where("seq >= 3"), folder, 3, 4, "date")
    assert archived(spark, path) == [1, 2, 3, 4]
    parquet_archive.merge_spans(spark, folder, "date", after=1)
    assert archived(spark, path) == [1, 2, 3, 4]
    assert len(parquet_archive.spans_in(folder)) == 1

    delta = tmp_path / "delta"
    archive(spark, url=journal.url, path=delta, format="delta")
    place = folder_at(spark, delta)
    name = "localqueue archive default *"
    assert delta_table.committed_version(place, name) == 4
    again = delta_table.write_delta(
        read_archive(spark, delta), place, partition_by=["date"], transaction=delta_table.Transaction(name, 4)
    )
    assert again.rows == 0
    assert archived(spark, delta) == [1, 2, 3, 4]

    stale = delta_table.table_at(place)  # as a writer has it that began before another one's commit
    journal.put("5")
    rows = read_archive(spark, delta).where("seq = 4").withColumn("seq", functions.lit(5).cast("long"))
    archive(spark, url=journal.url, path=delta, format="delta")
    monkeypatch.setattr(delta_table, "table_at", lambda folder: stale)
    with pytest.raises(delta_table.CommittedElsewhere, match="somebody else has committed"):
        delta_table.write_delta(rows, place, partition_by=["date"], transaction=delta_table.Transaction(name, 5))
    monkeypatch.undo()
    assert archived(spark, delta) == [1, 2, 3, 4, 5]


def test_an_archiver_that_looked_before_another_ones_commit_does_not_add_the_same_entries(
    spark: Any, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "delta"
    journal.put("1")
    archive(spark, url=journal.url, path=path, format="delta")
    journal.put("2", "3")
    staged, began = delta_table.stage, []

    def meanwhile(*args: Any) -> Any:
        if not began:  # another one, that found less, commits while this one writes
            began.append(True)
            rows = journal_rows(spark, place_of(journal.url), after=1, last=2).withColumn("date", utc_date("at"))
            less = delta_table.Transaction("localqueue archive default *", 2, after=1)
            delta_table.write_delta(rows, folder_at(spark, path), partition_by=["date"], transaction=less)
        return staged(*args)

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "stage", meanwhile)
        with pytest.raises(delta_table.CommittedElsewhere, match="somebody else has committed"):
            archive(spark, url=journal.url, path=path, format="delta")
    assert archived(spark, path) == [1, 2]
    assert archive(spark, url=journal.url, path=path, format="delta").rows == 1
    assert archived(spark, path) == [1, 2, 3]


def test_only_what_is_archived_is_pruned(
    spark: Any, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive"
    journal.put("1", "2")
    assert archive(spark, url=journal.url, path=path, format="delta", older_than=3600).pruned == 0
    write_delta = delta_table.write_delta

    def meanwhile(*args: Any, **options: Any) -> Any:
        journal.put("4")
        return write_delta(*args, **options)

    journal.put("3")
    monkeypatch.setattr(delta_table, "write_delta", meanwhile)
    assert archive(spark, url=journal.url, path=path, format="delta", prune=True).pruned == 3
    assert journal.seqs() == [4]
    monkeypatch.undo()
    assert archive(spark, url=journal.url, path=path, format="delta", compact_after=1).merged > 0
    assert archived(spark, path) == [1, 2, 3, 4]


def test_entries_that_were_gone_before_they_were_archived_are_counted(
    spark: Any, journal: Journal, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    journal.put("1")
    archive(spark, url=journal.url, path=path)
    journal.put("2", "3")
    with journal.open() as store:
        assert store.prune_events(older_than=0.0) == 3
    journal.put("4")
    result = archive(spark, url=journal.url, path=path)
    assert (result.rows, result.lost) == (1, 2)
    assert "2 entries were gone" in str(result)


def test_an_archive_of_something_else_is_refused(spark: Any, journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    journal.put("1")
    archive(spark, url=journal.url, path=path, queue="jobs")
    with pytest.raises(ValueError, match="queue 'jobs' and not None"):
        archive(spark, url=journal.url, path=path)
    with pytest.raises(ValueError, match="format 'parquet' and not 'delta'"):
        archive(spark, url=journal.url, path=path, queue="jobs", format="delta")
    with pytest.raises(ValueError, match=r"not empty \(archive is there\)"):
        archive(spark, url=journal.url, path=tmp_path)
    with pytest.raises(ValueError, match="one of parquet, delta, not 'csv'"):
        archive(spark, url=journal.url, path=path, format="csv")
    with pytest.raises(ValueError, match="the address of a store"):
        archive(spark, url=journal.url, path=journal.url)
    with pytest.raises(ValueError, match="leave out queue"):
        archive(spark, url=journal.url, path=path, queue="jobs", prune=True)
    with pytest.raises(ValueError, match="is not an archive, it has nothing"):
        read_archive(spark, tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    other = Journal(tmp_path / "other")
    other.put("1")
    with pytest.raises(ValueError, match="store 'sqlite"):
        archive(spark, url=other.url, path=path, queue="jobs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "deltalake", None)
        with pytest.raises(ValueError, match=r'pip install "localqueue\[delta\]"'):
            archive(spark, url=journal.url, path=tmp_path / "d", format="delta")


def test_dead_letters_are_archived_as_snapshots_and_exported(spark: Any, journal: Journal, tmp_path: Path) -> None:
    from localqueue.stores.port import LeaseRequest, Settle

    journal.put('{"n":1}', '{"n":2}', headers='{"a":"b"}')
    with journal.open() as store:
        one = store.lease(LeaseRequest("jobs"))[0]
        error = {"type": "ValueError", "module": "builtins", "message": "no"}
        store.commit(Changes(settle=[Settle("jobs", one.id, "dead-letter", one.attempts, error=error)]))
    path = tmp_path / "dead"
    for _ in range(2):
        result = archive(spark, url=journal.url, path=path, queue="jobs", view="dead")
        assert result.rows == 1
    rows = read_archive(spark, path)
    assert rows.count() == 2
    assert rows.select("taken_at").distinct().count() == 2

    for format, read in (
        ("parquet", lambda p: spark.read.parquet(p)),
        ("json", lambda p: spark.read.json(p)),
        ("csv", lambda p: spark.read.option("header", "true").csv(p)),
        ("delta", lambda p: delta_table.read_delta(spark, folder_at(spark, p))),
    ):
        out = str(tmp_path / format)
        done = export(spark, url=journal.url, path=out, queue="jobs", format=format, where="state = 'dead'")
        assert (done.rows, done.view) == (1, "messages")
        assert [row["id"] for row in read(out).collect()] == [one.id]
        with pytest.raises(ValueError, match=r"give another path, or a mode"):
            export(spark, url=journal.url, path=out, queue="jobs", format=format)
    assert export(spark, url=journal.url, path=out, queue="jobs", format="delta", mode="overwrite").rows == 2
    with pytest.raises(ValueError, match="is a Delta table"):
        export(spark, url=journal.url, path=out, queue="jobs", mode="append")
    with pytest.raises(ValueError, match="where 'stat = 1' is not a condition over the columns id, queue"):
        export(spark, url=journal.url, path=tmp_path / "x", queue="jobs", where="stat = 1")
    with pytest.raises(ValueError, match="view must be one of messages"):
        export(spark, url=journal.url, path=tmp_path / "x", view="letters")


def test_a_folder_of_hadoop_is_as_one_of_this_machine(spark: Any, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, str(tmp_path / "a"))
    folder.write("x/note.txt", "é")
    assert folder.read("x/note.txt") == "é"
    assert folder.read("nothing") is None
    assert [(name, entry.size) for name, entry in files_in(folder)] == [("x/note.txt", 2)]
    folder.rename("x", "y/z")
    with pytest.raises(FileExistsError):
        folder.write("y/z", "2")
    folder.replace("note", "1")
    folder.replace("note", "2")
    assert folder.read("note") == "2"
    with pytest.raises(FileExistsError):
        folder.write("note", "3")
    folder.remove("note")
    df = spark.createDataFrame([(1,)], "n int")
    staged = stage(df, folder)
    folder.rename(staged.name, "span")
    assert spark.read.parquet(folder.at("span")).count() == staged.rows == 1
    folder.remove("y")
    assert [entry.name for entry in folder.entries()] == ["_writing", "span"]


def test_an_archive_of_a_journal_that_is_off_says_how_to_switch_it_on(spark: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    open_store(url).close()
    with pytest.raises(ValueError, match=r"is off and empty: switch it on with `localqueue queue journal --enable`"):
        archive(spark, url=url, path=tmp_path / "archive")
    assert not (tmp_path / "archive").exists()
