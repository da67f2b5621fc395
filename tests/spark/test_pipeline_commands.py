"""The commands of `localqueue pipeline` that run on Spark, on the session that is there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores.url import open_store
from tests.cli.command import Ran, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store with a journal, which the commands find through the environment."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALQUEUE_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with closing(open_store(url)) as opened:
        opened.enable_journal()
        yield opened


def pipeline(*args: str) -> Ran:
    ran = run("pipeline", *args)
    assert ran.code == 0, ran.err
    return ran


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_rows_of_a_file_become_messages_that_are_processed_triaged_and_reported(
    spark: Any, store: Any, tmp_path: Path
) -> None:
    Path("rows.jsonl").write_text("".join(f'{{"n":{n},"user":"u{n % 2}"}}\n' for n in range(6)))
    Path("handlers_of_commands.py").write_text(
        "def odd(value):\n    if value['n'] % 2:\n        raise ValueError(f\"row {value['n']}\")\n"
    )
    assert pipeline("ingest", "jobs", f"{tmp_path}/rows.jsonl").json["rows"] == 6
    assert store.qsize("jobs") == 6

    done = pipeline("process", "jobs", "handlers_of_commands:odd", "--max-tries", "1", "--prefetch", "2").json
    assert (done["processed"], done["dead_lettered"], len(done["tasks"])) == (3, 3, 2)

    groups = pipeline("triage", "groups", "jobs").json
    assert [(row["shape"], row["count"]) for row in groups] == [("ValueError: row <n>", 3)]
    last = max(store.scan("jobs", state="dead"), key=lambda dead: (dead.failed_at, dead.id))  # of either task
    shown = pipeline("triage", "sample", "jobs", "ValueError: row <n>", "-n", "1", "--no-json").out
    assert last.last_error["message"] in shown and shown.count("row ") == 1
    assert pipeline("triage", "replay", "jobs", "--shape", "ValueError: row <n>").json["done"] == 3
    assert store.stats("jobs").ready == 3

    report = pipeline("report", "--queue", "jobs", "--html", f"{tmp_path}/report.html").json
    assert Path(report["html"]).exists() and report["flow"][0]["enqueued"] == 6


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_job_without_anything_to_do_is_told_from_work_and_a_wrong_name_from_both(
    spark: Any, store: Any, tmp_path: Path
) -> None:
    """Exit code 3 and `changed` false for nothing to do, 1 and what there is for a wrong name."""
    with PersistentQueue[Any]("jobs", store=store) as queue:
        queue.put({"n": 1})
    done = pipeline("archive", "kept", "--queue", "jobs").json
    assert (done["changed"], done["rows"]) == (True, 1)
    for again in (("archive", "kept", "--queue", "jobs"), ("export", "dead", "--view", "dead", "--queue", "jobs")):
        idle = run("pipeline", *again)
        assert (idle.code, idle.json["changed"]) == (3, False), idle.err
    assert run("pipeline", "archive", "kept", "--queue", "jobs", "--no-json").out.endswith("nothing to do\n")
    nobody = run("pipeline", "triage", "replay", "jobs", "--where", "attempts > 99")
    assert (nobody.code, nobody.json["changed"]) == (3, False)

    for wrong in (
        ("archive", "other", "--queue", "jbos"),
        ("export", "other", "--queue", "jbos"),
        ("triage", "groups", "jbos"),
        ("triage", "audit", "jbos"),
        ("process", "jbos", "os:getpid"),
        ("report", "--queue", "jbos"),
    ):
        ran = run("pipeline", *wrong)
        assert (ran.code, ran.out) == (1, ""), wrong
        assert "there is no queue 'jbos' in namespace 'default'" in ran.err and "there are 'jobs'" in ran.err
    assert not (tmp_path / "other").exists()
    shape = run("pipeline", "triage", "sample", "jobs", "KeyError: <s>")
    assert shape.code == 1 and "has the shape 'KeyError: <s>': the queue has none" in shape.err


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_command_that_looks_where_there_is_no_store_says_so_and_makes_none(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for words in (
        ("export", "out"),
        ("archive", "out"),
        ("report",),
        ("report-live", "--checkpoint", "c", "--output", "live", "--available-now"),
        ("compact", "--key", "k", "--path", "out"),
        ("materialise", "jobs", "view", "--key", "k"),
        ("process", "jobs", "os:getpid"),
        ("replay", "sqlite:///none/jobs.db", "--to", "other"),
        ("triage", "groups", "jobs"),
        ("triage", "replay", "jobs", "--where", "true"),
        ("triage", "discard", "jobs", "--id", "a" * 32),
        ("triage", "audit", "jobs"),
    ):
        ran = run("pipeline", *words, "--store", "sqlite:///none/jobs.db")
        assert (ran.code, ran.out) == (1, ""), (words, ran.err)
        assert "there is no store at 'sqlite:///" in ran.err, (words, ran.err)
        assert not (tmp_path / "none").exists(), words


@contextmanager
def interrupted_when(seen: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C for what runs inside, as soon as the thing is seen; after a while in any case."""

    def watch() -> None:
        deadline = time.monotonic() + 120
        while not seen() and time.monotonic() < deadline and not ended.wait(0.1):
            pass
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_what_follows_a_queue_goes_on_until_it_is_interrupted_and_then_where_it_was(
    spark: Any, store: Any, tmp_path: Path
) -> None:
    from localqueue.spark.jobs.materialise import read_view

    def view() -> dict[str, int]:
        try:
            return {row["key"]: row["n"] for row in read_view(spark, tmp_path / "view").collect()}
        except ValueError:
            return {}

    follow = ("materialise", "jobs", f"{tmp_path}/view", "--key", "ordering_key", "--schema", "n int")
    queue = PersistentQueue[Any]("jobs", store=store, ordering_policy=PerKeyFifoOrdering())
    queue.put({"n": 1}, ordering_key="a")

    more: list[Any] = []

    def followed() -> bool:
        seen = view()
        if seen == {"a": 1} and not more:
            more.append(queue.put({"n": 2}, ordering_key="b"))
        return seen == {"a": 1, "b": 2}

    with interrupted_when(followed):
        assert pipeline(*follow, "--follow", "--every", "1 second").json["last_batch"] >= 1
    queue.put({"n": 3}, ordering_key="a")
    pipeline(*follow)
    assert view() == {"a": 3, "b": 2}

    page = tmp_path / "live" / "report.html"
    with interrupted_when(page.exists):
        live = pipeline("report-live", "--checkpoint", f"{tmp_path}/c", "--output", f"{tmp_path}/live").json
    assert live["output"] == f"{tmp_path}/live" and "jobs" in page.read_text()


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_errors_of_spark_are_one_line(spark: Any, store: Any) -> None:
    with PersistentQueue[Any]("jobs", store=store) as queue:
        queue.put(1)
        queue.dead_letter(queue.get_message(), error=ValueError("no"))
    for args in (
        ("triage", "replay", "jobs", "--where", "no_such_column > 3"),
        ("ingest", "jobs", "nowhere.jsonl"),
        ("process", "jobs", "nowhere:handler"),
        ("process", "jobs", "nowhere:handler", "--store", "redis://:secret@127.0.0.1:1/0"),
    ):
        ran = run("pipeline", *args)
        assert ran.code in (1, 2) and ran.out == "", args
        assert len(ran.err.splitlines()) == 1 and "stacktrace" not in ran.err and "secret" not in ran.err, ran.err
