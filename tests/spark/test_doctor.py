"""`doctor`: a line for everything that has to be there, and the way out where it is not."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark.version
import pytest

from localqueue.spark import checkup, checkup_session
from localqueue.spark.checkup import Check, doctor, has_failed
from localqueue.spark.host import SETTINGS
from localqueue.spark.java import Java, NoJava
from localqueue.spark.root_cause import root_cause
from localqueue.stores.sqlite import SQLiteQueueStore

VERSIONS = {
    "pyspark": "4.3.0", "pandas": "2.3.3", "pyarrow": "26.0.1", "adbc-driver-manager": "1.13.0",
    "adbc-driver-sqlite": "1.13.0", "adbc-driver-postgresql": "1.13.0", "deltalake": "1.6.6", "msgspec": "0.22.0",
}  # fmt: skip


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine on which all is well, with the versions that are installed."""
    found = dict(VERSIONS)

    def version(package: str) -> str:
        if package not in found:
            raise PackageNotFoundError(package)
        return found[package]

    monkeypatch.setattr(checkup, "version", version)
    monkeypatch.setattr(checkup, "find_java", lambda: Java(version=17, program="/bin/java", found_as="PATH"))
    monkeypatch.setattr(checkup, "wrong_name", lambda: None)
    monkeypatch.setattr(checkup, "wrong_python", lambda said, search: None)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return found


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_machine_on_which_all_is_well(machine: dict[str, str]) -> None:
    told: list[Check] = []
    checks = doctor(quick=True, told=told.append)
    assert list(checks) == told
    assert {check.state for check in checks} == {"ok"} and not has_failed(checks)
    assert str(by_name(checks)["Java"]) == "ok    Java: 17 (/bin/java, found by PATH)"


def test_what_is_missing_or_too_new_fails_with_the_way_out(machine: dict[str, str]) -> None:
    del machine["pyarrow"]
    machine["pandas"] = "3.0.1"
    machine["pyspark"] = "4.0.2"
    checks = doctor(quick=True)
    assert has_failed(checks)
    found = by_name(checks)
    install = 'pip install "localqueue[spark,cli]"'
    assert (found["pyarrow"].state, found["pyarrow"].way_out) == ("FAIL", install)
    assert found["pandas"].found == "3.0.1, and pandas 2.2 or newer and below 3 is needed"
    assert found["pyspark"].state == "FAIL"
    assert found["pyspark"].found == "4.0.2, and pyspark 4.1 or newer and below 5 is needed"


def test_what_only_makes_things_slower_is_a_warning(machine: dict[str, str]) -> None:
    del machine["adbc-driver-sqlite"], machine["deltalake"]
    checks = doctor(quick=True)
    found = by_name(checks)
    assert not has_failed(checks)
    assert str(found["adbc-driver-sqlite"]).startswith("warn  adbc-driver-sqlite: not installed, SQLite is read more")
    assert found["deltalake"].way_out == 'pip install "localqueue[delta]"'


def test_without_java_nothing_is_started(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java() -> Java:
        raise NoJava("Spark needs Java 17 or newer and none was found: install one")

    monkeypatch.setattr(checkup, "find_java", find_java)
    monkeypatch.setattr(checkup_session, "session", lambda **given: pytest.fail("it was started"))
    *_, last = checks = doctor()
    assert by_name(checks)["Java"].way_out == "install one"
    assert (last.name, last.state) == ("session", "FAIL")
    assert "Java" not in by_name(doctor(quick=True, master="sc://host")), "a client of Spark Connect needs none"


def test_another_spark_is_a_warning(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert by_name(doctor(quick=True))["Spark"].state == "warn"


def test_the_pyspark_that_spark_submit_brings_was_not_installed_and_is_there(
    machine: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del machine["pyspark"]
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    brought = ModuleSpec(
        "pyspark", None, origin=str(tmp_path / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py")
    )
    monkeypatch.setattr(checkup, "find_spec", lambda name: brought if name == "pyspark" else find_spec(name))
    checks = by_name(doctor(quick=True))
    assert (checks["pyspark"].state, checks["pyspark"].found) == ("ok", pyspark.version.__version__)
    assert (checks["Spark"].state, checks["Spark"].found) == ("ok", str(tmp_path))


def test_a_python_without_the_package_is_told_of_before_a_session_of_ours_names_another(
    machine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "wrong_python", lambda said, search: f"Spark starts {said or 'python3'!r}")
    found = by_name(doctor(quick=True))["Python of tasks"]
    assert found.state == "warn" and found.found.startswith("Spark starts 'python3'; only sessions made by localqueue")
    assert f"PYSPARK_PYTHON={sys.executable}" in (found.way_out or "")
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/other")
    assert by_name(doctor(quick=True))["Python of tasks"].state == "FAIL", "our session would start it too"
    assert by_name(doctor(quick=True, conf={"spark.pyspark.python": "env/bin/python"}))["Python of tasks"].found == (
        "Spark starts 'env/bin/python'"
    )
    assert "Python of tasks" not in by_name(doctor(quick=True, master="sc://host")), "that is the server's"


def test_it_says_what_becomes_of_a_host_name_that_leads_nowhere(
    machine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_name(doctor(quick=True))["host name"].state == "ok"
    monkeypatch.setattr(checkup, "wrong_name", lambda: "the host's name 'odd' leads to no address")
    here = by_name(doctor(quick=True))["host name"]
    assert here.state == "warn" and here.found.startswith(
        "the host's name 'odd' leads to no address, so local sessions"
    )
    assert "SPARK_LOCAL_IP=127.0.0.1" in (here.way_out or "")
    there = by_name(doctor(quick=True, master="spark://host:7077"))["host name"]
    assert there.state == "warn" and "the executors reach this machine" in (there.way_out or "")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.1.1")
    assert str(by_name(doctor(quick=True))["host name"]) == "ok    host name: not asked for, SPARK_LOCAL_IP=10.1.1.1"


def test_a_session_that_does_not_start_is_a_line(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def session(**given: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(checkup_session, "session", session)
    *_, last = doctor()
    assert (last.state, last.found) == ("FAIL", "no memory")


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_session_is_tried_to_the_end_and_a_store_from_a_task(spark: Any, tmp_path: Path) -> None:
    missing = doctor(spark, url=f"sqlite:///{tmp_path / 'jobs.db'}")
    assert has_failed(missing) and (missing[-1].name, missing[-1].state, list(tmp_path.iterdir())) == (
        "store",
        "FAIL",
        [],
    )
    assert "there is no store at" in missing[-1].found and "first put" in str(missing[-1].way_out)
    SQLiteQueueStore(tmp_path / "jobs.db").close()
    checks = doctor(spark, url=f"sqlite:///{tmp_path / 'jobs.db'}")
    assert {check.name: check.state for check in checks if check.state != "ok"} == {}
    names = [check.name for check in checks]
    assert names[-5:] == ["session", "tasks", 'format("localqueue")', "round trip", "store"]
    assert "answers here and to a task on" in checks[-1].found
    lost = checkup_session._store(spark, "redis://user:secret@127.0.0.1:1/0", None)
    assert lost.state == "FAIL" and "secret" not in str(lost)
    (tmp_path / "file").write_text("")
    wrong = checkup_session._store(spark, "memory://", None)
    assert wrong.state == "FAIL" and "memory store" in wrong.found


def test_the_root_of_an_error_of_spark_is_its_last_python_line() -> None:
    said = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "batch.py", line 5, in partitions\n'
        "    raise error\n"
        "localqueue.errors.QueueStoreUnavailableError: can not reach redis://localhost:1\n\n"
        "JVM stacktrace:\norg.apache.spark.SparkException\n\tat org.apache.spark.Foo.bar(Foo.scala:5)\n"
    )
    assert root_cause(RuntimeError(said)) == "can not reach redis://localhost:1"
    java = "[TABLE_OR_VIEW_NOT_FOUND] The table `x` can not be found.\nCheck it. SQLSTATE: 42P01;\n'Relation [x]\n"
    assert root_cause(RuntimeError(java)).startswith("[TABLE_OR_VIEW_NOT_FOUND] The table `x` can not be found. Check")
    assert root_cause(RuntimeError()) == "RuntimeError"
    assert root_cause(RuntimeError("KeyError: 'k'")) == "KeyError: 'k'"
