"""`localqueue pipeline`: what can be seen without Spark."""

from __future__ import annotations

import inspect
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from localqueue import PersistentQueue
from localqueue.cli import pipeline_session
from localqueue.cli.app import build
from localqueue.cli.errors import Mistake
from localqueue.cli.pipeline_results import moment_of
from localqueue.cli.pipeline_session import Cluster, where
from localqueue.cli.place import Place
from localqueue.spark.java import NoJava
from localqueue.spark.jobs.plain_result import plain
from localqueue.spark.streams.claims import Claims
from tests.cli.command import run, run_process

COMMANDS = (
    "archive", "compact", "consumers", "doctor", "export", "ingest", "materialise", "process", "replay", "report",
    "report-live", "schema", "triage",
)  # fmt: skip


def bury(*errors: Exception) -> list[str]:
    with PersistentQueue[Any]("jobs") as queue:
        for error in errors:
            queue.put({})
            queue.dead_letter(queue.get_message(), error=error)
        return [message.id for message in queue.dead_letters()]


def test_every_command_explains_itself() -> None:
    group = typer.main.get_command(build()).commands["pipeline"]  # type: ignore[attr-defined]
    assert tuple(sorted(group.commands)) == COMMANDS
    assert tuple(sorted(group.commands["triage"].commands)) == (
        "audit", "discard", "groups", "replay", "resume", "sample",
    )  # fmt: skip
    assert tuple(sorted(group.commands["consumers"].commands)) == ("forget", "list", "release", "reset", "show")
    for name in COMMANDS:
        shown = run("pipeline", name, "--help")
        assert shown.code == 0 and "Usage: localqueue pipeline" in shown.out


def test_without_the_extra_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline_session.find_spec
    monkeypatch.setattr(pipeline_session, "find_spec", lambda name: None if name == "pyspark" else real(name))
    for args in (("report",), ("process", "jobs", "m:f"), ("triage", "groups", "jobs")):
        said = run("pipeline", *args)
        assert (said.code, said.err.strip()) == (
            1,
            'this command needs Spark: pip install "localqueue[spark,cli]"',
        )


def test_without_java_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def use_java() -> None:
        raise NoJava("Spark needs Java 17 or newer and none was found: install one")

    monkeypatch.setattr("localqueue.spark.java.use_java", use_java)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    bury(ValueError("a"))
    said = run("pipeline", "report")
    assert (said.code, said.err.strip()) == (1, "Spark needs Java 17 or newer and none was found: install one")


def test_the_doctor_looks_quickly_and_fails_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run("pipeline", "doctor", "--quick")
    names = [check["name"] for check in said.json]
    assert names[:3] == ["Python", "Python of tasks", "pyspark"] and "session" not in names
    monkeypatch.setattr("localqueue.spark.checkup._PACKAGES", (("no-such-package", "1", None, True),))
    said = run("pipeline", "doctor", "--quick", "--no-json")
    assert said.code == 1
    assert 'FAIL  no-such-package: not installed: pip install "localqueue[spark,cli]"' in said.out


def test_a_store_that_the_doctor_is_told_of_and_that_is_not_there_is_a_failed_check(tmp_path: Path) -> None:
    missing = f"sqlite:///{tmp_path / 'none.db'}"
    bury(ValueError("a"))
    for words, found in (
        (("--store", missing), "there is no store at 'sqlite:///"),
        (("--store-path", "none.db"), "there is no store at 'sqlite:///"),
        (("--namespace", "nope"), "there is no namespace 'nope'"),
    ):
        said = run("pipeline", "doctor", "--quick", *words)
        (store,) = (check for check in said.json if check["name"] == "store")
        assert (said.code, store["state"]) == (1, "FAIL") and store["found"].startswith(found), store
        assert f"FAIL  store: {found}" in run("pipeline", "doctor", "--quick", "--no-json", *words).out
    assert not (tmp_path / "none.db").exists() and not Path("none.db").exists()
    said = run("pipeline", "doctor", "--quick", "--namespace", "default")
    assert said.code == 0 and said.json[-1]["found"].endswith("answers here")


@pytest.mark.slow
@pytest.mark.multiprocess
def test_chosen_dead_letters_are_replayed_and_discarded_without_spark() -> None:
    first, second, third = bury(ValueError("a"), ValueError("b"), ValueError("c"))
    done = run("pipeline", "triage", "replay", "jobs", "--id", first)
    assert (done.code, done.json["done"], done.json["state"]) == (0, 1, "done")
    moved = run("pipeline", "triage", "replay", "jobs", "--id", second, "--to", "other", "--progress")
    assert moved.json["to"] == "other" and moved.err == "1 of 1\n"
    assert run("pipeline", "triage", "discard", "jobs", "--id", third, "--dry-run").json["selected"] == 1
    assert run("pipeline", "triage", "discard", "jobs", "--id", third).json["done"] == 1
    entries = run("pipeline", "triage", "audit", "jobs").json
    assert [entry["action"] for entry in entries] == ["discard", "replay", "replay"]
    listed = run("pipeline", "triage", "audit", "jobs", "--ids", entries[0]["id"]).json
    assert listed == [{"id": third}]
    assert "pyspark" not in run_process("pipeline", "triage", "audit", "jobs", "--no-json").err
    assert run("pipeline", "triage", "resume", "jobs", entries[0]["id"]).json["state"] == "done"
    assert "discard" in run("pipeline", "triage", "audit", "jobs", "--no-json").out
    nothing = run("pipeline", "triage", "replay", "jobs")
    assert (nothing.code, nothing.err.strip()) == (
        2,
        "say which dead letters: --shape, --where or --id; --where true takes all",
    )


def test_the_store_of_a_command_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, a_home_of_its_own: Path) -> None:
    assert where(Place())["url"].endswith("/data/localqueue/queue.sqlite3")
    assert where(Place(store_path="a b.db"))["url"].endswith("/a%20b.db")
    monkeypatch.setenv("LOCALQUEUE_URL", "redis://:secret@host")
    monkeypatch.setenv("LOCALQUEUE_NAMESPACE", "there")
    assert where(Place()) == {"url": "redis://:secret@host", "namespace": "there"}
    assert where(Place(store="redis://other", namespace="here")) == {"url": "redis://other", "namespace": "here"}
    with pytest.raises(Mistake, match="either --store or --store-path"):
        where(Place(store="redis://other", store_path="x"))


def test_settings_of_spark_are_pairs() -> None:
    assert Cluster(conf=["a.b=c=d", "e="]).settings() == {"a.b": "c=d", "e": ""}
    with pytest.raises(Mistake, match="--conf is KEY=VALUE"):
        Cluster(conf=["nothing"]).settings()


def test_a_moment_is_a_time_or_how_long_ago() -> None:
    assert moment_of("2026-01-31T12:00:00+00:00", "--since") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    ago = moment_of("2h", "--since")
    assert ago is not None and timedelta(hours=1.9) < datetime.now(UTC) - ago < timedelta(hours=2.1)
    assert moment_of(None, "--since") is None
    for text in ("soon", "99999999999999d"):
        with pytest.raises(Mistake, match="--since is a time"):
            moment_of(text, "--since")
    assert plain({"at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "of": (1, [2])}) == {"at": 60.0, "of": [1, [2]]}


def test_the_command_does_not_load_spark_to_show_its_help() -> None:
    code = "import sys; from localqueue.cli.app import build; build(); print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


CALLS = {
    "ingest": ("jobs", "rows.csv", "--option", "header=true", "--priority", "3", "--delay", "due", "--header", "a=b"),
    "export": ("out", "--view", "dead", "--where", "attempts > 1"),
    "archive": ("out", "--partition-by", "none", "--prune", "--older-than", "7d"),
    "replay": ("archive", "--since", "2026-01-31T12:00:00+00:00", "--rate", "5", "--to", "other", "--dry-run"),
    "compact": ("--key", "user", "--path", "out", "--no-tombstones"),
    "materialise": ("jobs", "--table", "lake.db.n", "--checkpoint", "cp", "--sql", "SELECT count(*) FROM messages"),
    "process": ("jobs", "m:f", "--until", "15m", "--max-tries", "2", "--workers", "3"),
    "report": ("--since", "2026-01-31T12:00:00+00:00", "--html", "page.html"),
}


@pytest.mark.parametrize("words", [*((name, *CALLS[name]) for name in CALLS), ("triage", "replay", "jobs")])
def test_what_is_wrong_with_the_words_is_said_before_spark_starts(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(self: Cluster) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(Cluster, "session", started)
    said = run("pipeline", *words, "--store", "redis://host", "--store-path", "x.db")
    assert said.code == 2 and "Spark was started" not in said.err, said.err


@pytest.mark.parametrize("name", CALLS)
def test_a_command_calls_the_function_of_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arguments that the function has; what it does with them is tested where it is."""

    class Called(Exception):
        pass

    module = import_module(f"localqueue.spark.jobs.{name}")
    signature = inspect.signature(getattr(module, name))
    given: dict[str, Any] = {}

    def called(*args: Any, **kwargs: Any) -> None:
        given.update(signature.bind(*args, **kwargs).arguments)
        raise Called

    monkeypatch.setattr(module, name, called)
    monkeypatch.setattr(Cluster, "session", lambda self, **how: nullcontext("a session"))
    said = run("pipeline", name, *CALLS[name], "--store", "redis://:secret@host", "--namespace", "here")
    assert said.err.startswith("Called"), said.err
    assert (given["spark"], given["url"], given["namespace"]) == ("a session", "redis://:secret@host", "here")
    expected: dict[str, dict[str, Any]] = {
        "ingest": {"priority": 3, "delay": "due", "headers": {"a": "b"}, "options": {"header": "true"}},
        "export": {"view": "dead", "where": "attempts > 1"},
        "archive": {"partition_by": None, "prune": True, "older_than": 7 * 86400.0},
        "replay": {"source": "archive", "rate": 5.0, "to": "other", "dry_run": True},
        "compact": {"source": "redis://:secret@host", "tombstones": False},
        "materialise": {"available_now": True, "key": None, "path": None, "table": "lake.db.n", "checkpoint": "cp"},
        "process": {"until": 900.0, "workers": 3, "handler": "m:f"},
        "report": {"since": datetime(2026, 1, 31, 12, tzinfo=UTC), "html": "page.html", "events": None},
    }
    assert {one: given[one] for one in expected[name]} == expected[name]


def test_the_schema_of_a_queue_is_printed_and_looking_makes_nothing() -> None:
    nowhere = run("pipeline", "schema", "jobs")
    assert nowhere.code == 1 and "there is no store" in nowhere.err
    with PersistentQueue[Any]("jobs") as queue:
        queue.put_many([{"n": 1, "day": "2026-01-31", "_id": 1}, {"n": 0.5, "day": "2026-02-01"}, [1]])
    typed = run("pipeline", "schema", "jobs", "--timestamps", "--no-json")
    assert (typed.code, typed.out) == (0, "n double, day date, _corrupt string\n")
    assert "1 of 3 payloads" in typed.err
    assert run("pipeline", "schema", "jobs", "--sample", "1").json == {
        "queue": "jobs",
        "schema": "n bigint, day string, _corrupt string",
        "sampled": 1,
        "typed": 1,
        "left_out": ["_id"],
    }
    missing = run("pipeline", "schema", "job")
    assert missing.code == 1 and "there is no queue 'job'" in missing.err and "'jobs'" in missing.err
    with PersistentQueue[Any]("jobs") as queue:
        assert queue.store.queues() == ["jobs"]


def consume(*names: str) -> None:
    """Consumers that hold two messages each."""
    with PersistentQueue[Any]("jobs") as queue:
        for name in names:
            queue.put_many([{}, {}])
            Claims(queue.store, "jobs", name, timeout=60.0).claim(2)


def test_consumers_are_listed_released_reset_and_forgotten() -> None:
    consume("a", "b", "c")
    listed = run("pipeline", "consumers", "list").json
    assert [(one["consumer"], one["held"], one["lag_rows"], one["running"]) for one in listed] == [
        ("a", 2, 0, True),
        ("b", 2, 0, True),
        ("c", 2, 0, True),
    ]
    released = run("pipeline", "consumers", "release", "jobs", "a").json
    assert released == {"queue": "jobs", "consumer": "a", "released": 2}
    assert "lag rows" in run("pipeline", "consumers", "list", "--no-json").out
    shown = run("pipeline", "consumers", "show", "jobs", "a")
    assert (shown.json["held"], shown.json["driver"], shown.json["lag_rows"]) == (0, None, 2)
    assert run("pipeline", "consumers", "reset", "jobs", "b", "--to", "4").json["settled"] == 4
    assert run("pipeline", "consumers", "forget", "jobs", "b").json["forgotten"] is True

    none = run("pipeline", "consumers", "release", "--older-than", "2h")
    said = "no consumer was silent for 2h: nothing to do\n"
    assert (none.code, none.json, none.err) == (3, [], said)
    told = run("pipeline", "consumers", "release", "--older-than", "2h", "--no-json")
    assert (told.code, told.out) == (3, said)
    rest = run("pipeline", "consumers", "release", "jobs", "--older-than", "0")
    assert (rest.code, rest.json) == (0, [{"queue": "jobs", "consumer": "c", "released": 2}])
    with PersistentQueue[Any]("jobs") as queue:
        assert queue.stats().ready == 6


def test_a_consumer_that_is_not_there_and_a_release_of_nobody_are_mistakes_that_are_named() -> None:
    consume("etl")
    for command in ("show", "release", "reset", "forget"):
        said = run("pipeline", "consumers", command, "jobs", "elt")
        assert (said.code, said.err.strip()) == (1, "queue 'jobs' has no consumer 'elt'; it has 'etl'")
    for args in ((), ("jobs",), ("jobs", "etl", "--older-than", "1h")):
        said = run("pipeline", "consumers", "release", *args)
        assert said.code == 2 and "say whom to release: QUEUE CONSUMER, or --older-than AGE" in said.err
    assert run("pipeline", "consumers", "release", "--older-than", "soon").code == 2


def test_consumers_are_looked_for_only_in_a_queue_that_is_there() -> None:
    consume("etl")
    with PersistentQueue[Any]("idle") as queue:
        queue.put({})
        Claims(queue.store, "rabbitmq:jobs", "etl", timeout=60.0, broker=True).settle(0)
    for words in (("list", "--queue", "jbos"), ("release", "jbos", "--older-than", "2h")):
        said = run("pipeline", "consumers", *words)
        assert (said.code, said.out) == (1, "")
        assert "there is no queue 'jbos' in namespace 'default'" in said.err and "there are 'idle', 'jobs'" in said.err
    assert run("pipeline", "consumers", "list", "--queue", "idle").json == []
    assert run("pipeline", "consumers", "release", "idle", "--older-than", "2h").code == 3
    at_broker = run("pipeline", "consumers", "list", "--queue", "rabbitmq:jobs").json
    assert [one["consumer"] for one in at_broker] == ["etl"]


def test_looking_for_consumers_makes_no_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'none.db'}"
    for args in (("list",), ("show", "q", "c"), ("release", "q", "c"), ("reset", "q", "c"), ("forget", "q", "c")):
        said = run("pipeline", "consumers", *args, "--store", url)
        assert said.code == 1 and "there is no store at" in said.err
    assert not (tmp_path / "none.db").exists()
