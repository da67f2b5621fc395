"""A name that is not there is an error that says which there are, of a command as of its function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.errors import QueueError
from localqueue.spark import archive, compact, export, materialise, process, read_archive, replay, report, triage
from localqueue.spark.jobs.materialise import read_view
from localqueue.stores.url import open_store
from tests.cli.command import Ran, run

NO_QUEUE = r"there is no queue 'ordres' in namespace 'default' of .*: there are 'idle', 'orders'"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a store: orders and a dead letter in one queue, and one that is known and empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALQUEUE_URL", url_of(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with open_store(url_of(tmp_path)) as store:
        store.enable_journal()
        with PersistentQueue[Any]("orders", store=store) as queue:
            for n in range(3):
                queue.put({"id": n, "customer": {"name": "c"}})
            queue.dead_letter(queue.get_message(), error=ValueError("row 1"))
        with PersistentQueue[Any]("idle", store=store) as queue:
            queue.put({"id": 1})
            queue.ack(queue.get_message())
    yield tmp_path


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'shop.db'}"


def folders(here: Path) -> list[str]:
    return sorted(entry.name for entry in here.iterdir() if entry.is_dir())


def refused(*words: str) -> str:
    """The one line of a command that fails."""
    ran = run("pipeline", *words)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1), (words, ran)
    return ran.err


def idle(*words: str) -> Ran:
    """A command that had nothing to do."""
    ran = run("pipeline", *words)
    assert ran.code == 3, (words, ran)
    return ran


def test_a_function_refuses_a_queue_that_is_not_there_as_its_command_does(spark: Any, here: Path) -> None:
    url = url_of(here)
    archive(spark, url=url, path="kept")
    given: dict[str, Any] = {"url": url, "queue": "ordres"}
    for job in (
        lambda: export(spark, **given, path="out"),
        lambda: export(spark, **given, path="out", view="dead"),
        lambda: archive(spark, **given, path="out"),
        lambda: archive(spark, **given, path="out", view="messages"),
        lambda: compact(spark, url, topic="ordres", key="id", path="out"),
        lambda: materialise(spark, **given, path="out", key="id"),
        lambda: process(spark, **given, handler=print),
        lambda: triage(spark, **given),
        lambda: replay(spark, source=url, **given),
        lambda: report(spark, **given),
    ):
        with pytest.raises(QueueError, match=NO_QUEUE):
            job()
    for words in (
        ("export", "out", "--queue", "ordres"),
        ("archive", "out", "--queue", "ordres"),
        ("compact", "--topic", "ordres", "--key", "id", "--path", "out"),
        ("materialise", "ordres", "out", "--key", "id"),
        ("process", "ordres", "builtins:print"),
        ("triage", "groups", "ordres"),
        ("replay", url, "--queue", "ordres"),
        ("report", "--queue", "ordres"),
        ("report-live", "--queue", "ordres", "--checkpoint", "c", "--output", "live", "--available-now"),
    ):
        assert "there is no queue 'ordres' in namespace 'default'" in refused(*words)
    with open_store(url, read_only=True) as store:
        assert store.queues() == ["idle", "orders"]
    assert folders(here) == ["kept"]
    with pytest.raises(QueueError, match=NO_QUEUE):
        process(spark, **given, handler=print, workers=1, until=0.5)  # nothing came


def test_a_queue_that_is_empty_now_is_known(spark: Any, here: Path) -> None:
    url = url_of(here)
    assert archive(spark, url=url, queue="idle", path="kept").rows == 3
    assert export(spark, url=url, queue="idle", path="out").rows == 0
    assert process(spark, url=url, queue="idle", handler=print, workers=1).processed == 0
    assert triage(spark, url=url, queue="idle").groups().collect() == []


def test_an_archive_is_asked_for_a_queue_and_after_it_the_store(spark: Any, here: Path) -> None:
    url = url_of(here)
    archive(spark, url=url, path="kept")
    said = "there is no queue 'ordres' in the archive 'kept': there are 'idle', 'orders'"
    assert said in refused("replay", "kept", "--queue", "ordres")
    assert said in refused("replay", "kept", "--queue", "ordres", "--store", "sqlite:///none.db")
    assert said in refused("compact", "--source", "kept", "--topic", "ordres", "--key", "id", "--path", "out")
    assert not (here / "none.db").exists() and folders(here) == ["kept"]
    with pytest.raises(QueueError, match="no queue 'ordres' in the rows: there are 'idle', 'orders'"):
        compact(spark, read_archive(spark, "kept"), topic="ordres", key="id", path="out")

    late = ("--since", "2999-01-01T00:00:00+00:00")
    assert idle("replay", "kept", "--queue", "orders", *late).json["matched"] == 0
    assert idle("replay", url, "--queue", "orders", *late).json["matched"] == 0
    with open_store(url) as store, PersistentQueue[Any]("younger", store=store) as queue:
        queue.put({"id": 1})
    idle("replay", "kept", "--queue", "younger")


def test_a_key_that_no_message_has_is_an_error(spark: Any, here: Path) -> None:
    url = url_of(here)
    for words in (
        ("compact", "--key", "nokey", "--path", "out"),
        ("compact", "--key", "nokey", "--topic", "orders", "--path", "out"),
        ("compact", "--key", "nokey", "--queue", "latest"),
        ("materialise", "orders", "out", "--key", "nokey"),
    ):
        assert "no message has the key 'nokey'; one has customer, id: give ordering_key, dedupe_key" in refused(*words)
    assert "no message has the key 'ordering_key'" in refused("compact", "--key", "ordering_key", "--path", "out")
    assert folders(here) == []
    with open_store(url, read_only=True) as store:
        assert store.queues() == ["idle", "orders"]
    assert compact(spark, url, key="customer.name", topic="orders", path="out").keys == 1


def test_the_key_of_a_view_is_in_its_schema_or_in_a_message(spark: Any, here: Path) -> None:
    url = url_of(here)
    fields = "id long, customer struct<name string>"
    for key in ("nokey", "customer.nmae"):
        said = refused("materialise", "orders", "out", "--key", key, "--schema", fields)
        assert f"no message has the key {key!r}, nor has the schema (id, customer); one has customer, id" in said
    with open_store("sqlite:///older.db") as store, PersistentQueue[Any]("orders", store=store) as queue:
        queue.put({"id": 1})
        store.enable_journal()  # which has no message
    words = ("materialise", "orders", "out", "--store", f"sqlite:///{here / 'older.db'}", "--key", "id")
    assert "no message has the key 'id', nor has the schema (n):" in refused(*words, "--schema", "n long")
    assert folders(here) == []
    for key, schema in (("customer.name", fields), ("id", "customer struct<name string>")):
        materialise(spark, url=url, queue="orders", path=f"by-{key}", key=key, schema=schema)
    assert [row["key"] for row in read_view(spark, "by-id").orderBy("key").collect()] == ["0", "1", "2"]


def test_a_shape_or_an_id_that_is_not_there_is_an_error(spark: Any, here: Path) -> None:
    shape = "ValueError: row <n>"
    for action in ("replay", "discard"):
        said = refused("triage", action, "orders", "--shape", "Nope")
        assert f"no dead letter of queue 'orders' has the shape 'Nope': there are {shape!r}" in said
        assert "no message of queue 'orders' has the id 'abc'" in refused("triage", action, "orders", "--id", "abc")
    assert run("pipeline", "triage", "audit", "orders").json == []
    idle("triage", "replay", "orders", "--shape", shape, "--where", "attempts > 99")
    assert run("pipeline", "triage", "replay", "orders", "--shape", shape).json["done"] == 1
    idle("triage", "replay", "orders", "--shape", shape)  # there was one of it


def test_a_period_without_entries_is_told_as_such(spark: Any, here: Path) -> None:
    with open_store("sqlite:///older.db") as store, PersistentQueue[Any]("orders", store=store) as queue:
        queue.put({"id": 1})
        store.enable_journal()
        with PersistentQueue[Any]("others", store=store) as others:
            others.put({"id": 1})
    for words, said in (
        (("--store", "sqlite:///older.db", "--queue", "orders"), "there are no journal entries of queue 'orders' in "),
        (("--since", "2999-01-01T00:00:00+00:00"), "there are no journal entries since 2999-01-01 00:00"),
        (("--queue", "ordres"), "there are no journal entries: there is no queue 'ordres'"),
    ):
        ran = run("pipeline", "report", *words)
        assert ran.code in (1, 2) and ran.out == "" and len(ran.err.splitlines()) == 1, ran
        assert said in ran.err, ran.err


def test_the_times_of_a_report_may_be_text_as_those_of_a_replay(spark: Any, here: Path) -> None:
    url = url_of(here)
    made = report(spark, url, queue="orders", since="2020-01-01T00:00:00+00:00", until="2999-01-01T00:00:00Z")
    assert made.rows("flow")[0]["enqueued"] == 3
    with pytest.raises(ValueError, match="there are no journal entries since 2999"):
        report(spark, url, since="2999-01-01T00:00:00+00:00")
    with pytest.raises(ValueError, match=r"since must be a time with its zone, .*not '2030-01-01'"):
        report(spark, url, since="2030-01-01")


def test_an_export_that_fails_leaves_nothing_so_that_the_right_one_can_be_run(spark: Any, here: Path) -> None:
    for wrong in (("--store", "sqlite:///none.db"), ("--namespace", "nope")):
        assert "there is no " in refused("export", "e1", *wrong)
        assert sorted(entry.name for entry in here.iterdir()) == ["shop.db"], wrong
    for format in ("parquet", "json", "csv", "delta"):
        failing = "assert_true(attempts < 0) is null"
        assert run("pipeline", "export", "e1", "--where", failing, "--format", format).code == 1
        assert folders(here) == []
    assert run("pipeline", "export", "e1").json["rows"] == 3


def test_an_export_that_fails_leaves_alone_what_was_there(spark: Any, here: Path) -> None:
    Path("file").write_text("mine")
    Path("hidden").mkdir()
    Path("hidden", ".mine").write_text("mine")
    for path in ("file", "hidden"):
        assert run("pipeline", "export", path).code != 0
    assert (Path("file").read_text(), Path("hidden", ".mine").read_text()) == ("mine", "mine")
