"""`doctor`: whether Spark works here with this package, line by line, and what to do where it does not."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from localqueue.spark.host import LOOPBACK, is_local, said_address, wrong_name
from localqueue.spark.java import NoJava, find_java
from localqueue.spark.root_cause import root_cause
from localqueue.spark.task_python import EXECUTOR_PATH, said_python, way_out, wrong_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OK = "ok"
WARN = "warn"
FAIL = "FAIL"
EXTRA = 'pip install "localqueue[spark,cli]"'

#: Package, first version, first version that is too new, and whether nothing works without it.
_PACKAGES: tuple[tuple[str, str, str | None, bool], ...] = (
    ("pyspark", "4.1", "5", True),
    ("msgspec", "0.19", "1", True),
    ("pandas", "2.2", "3", True),
    ("pyarrow", "18", None, True),
    ("adbc-driver-manager", "1.5", "2", False),
    ("adbc-driver-sqlite", "1.5", "2", False),
    ("adbc-driver-postgresql", "1.5", "2", False),
    ("deltalake", "1.1", "2", False),
)
_WITHOUT = {
    "adbc-driver-manager": "SQLite and PostgreSQL are read more slowly",
    "adbc-driver-sqlite": "SQLite is read more slowly",
    "adbc-driver-postgresql": "PostgreSQL is read and written more slowly",
    "deltalake": "archives can be Parquet but not Delta",
}
_INSTALL = {"deltalake": 'pip install "localqueue[delta]"'}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line: what was looked at, `state` "ok", "warn" or "FAIL", what was found, and the way out."""

    name: str
    state: str
    found: str
    way_out: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        way_out = "" if self.way_out is None else f": {self.way_out}"
        return f"{self.state:<4}  {self.name}: {self.found}{way_out}"


def doctor(
    spark: SparkSession | None = None,
    *,
    url: str | None = None,
    namespace: str | None = None,
    quick: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    told: Callable[[Check], object] | None = None,
) -> tuple[Check, ...]:
    """Look at Java, the host's name, the packages, the Python of tasks, the data source, and at a store if named.

    A store is named by `url`, `namespace` or both, and fails when it is not there: nothing makes it. `quick` looks only
    at what can be seen without a session. Without `spark` a session is started, as `master` and
    `conf` say, and stopped. `told` hears each check as it is done. It raises nothing: what fails is a line.
    """
    done = []
    for check in _all(spark, url, namespace, quick, master, conf):
        done.append(check)
        if told is not None:
            told(check)
    return tuple(done)


def has_failed(checks: tuple[Check, ...]) -> bool:
    return any(check.state == FAIL for check in checks)


def _all(
    spark: SparkSession | None,
    url: str | None,
    namespace: str | None,
    quick: bool,
    master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[Check]:
    failed = False
    driver_here = spark is None and not (master or "").startswith("sc:")
    for check in _without_session(driver_here=driver_here, master=master, conf=conf or {}):
        failed = failed or check.state == FAIL
        yield check
    if quick:
        if url is not None or namespace is not None:
            from localqueue.spark.checkup_store import answers_here, named

            yield answers_here(named(url, namespace))
        return
    if failed:
        yield Check(
            name="session", state=FAIL, found="not started", way_out="repair what failed above and run this again"
        )
        return
    from localqueue.spark.checkup_session import with_session

    yield from with_session(spark, url=url, namespace=namespace, master=master, conf=conf)


def _without_session(*, driver_here: bool, master: str | None, conf: Mapping[str, str]) -> Iterator[Check]:
    yield _python()
    if driver_here:
        yield _task_python(conf)
    for package, oldest, too_new, is_needed in _PACKAGES:
        yield _package(package, oldest, too_new, is_needed)
    if driver_here:
        yield _java()
        yield _host(is_local(master, conf))
    yield _spark_home()
    yield _discovery()


def _python() -> Check:
    return Check(name="Python", state=OK, found=f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})")


def _task_python(conf: Mapping[str, str]) -> Check:
    """What sessions of this machine start. Looked at first: a session that is made here says what it needs itself."""
    name = "Python of tasks"
    said = said_python(conf)
    wrong = wrong_python(said, conf.get(EXECUTOR_PATH))
    if wrong is None:
        return Check(name=name, state=OK, found=f"{said or 'python3 of the PATH'} has localqueue")
    if said is not None:
        return Check(name=name, state=FAIL, found=wrong, way_out=way_out("or leave it out"))
    return Check(
        name=name,
        state=WARN,
        found=f"{wrong}; only sessions made by localqueue start {sys.executable}",
        way_out=way_out("for sessions that you make yourself"),
    )


def _package(package: str, oldest: str, too_new: str | None, is_needed: bool) -> Check:
    wanted = f"{package} {oldest} or newer" + ("" if too_new is None else f" and below {too_new}")
    install = _INSTALL.get(package, EXTRA)
    bad = FAIL if is_needed else WARN
    try:
        found = _version(package)
    except PackageNotFoundError:
        without = f", {_WITHOUT[package]}" if package in _WITHOUT else ""
        return Check(name=package, state=bad, found=f"not installed{without}", way_out=install)
    if _numbers(found) < _numbers(oldest) or (too_new is not None and _numbers(found) >= _numbers(too_new)):
        return Check(name=package, state=bad, found=f"{found}, and {wanted} is needed", way_out=install)
    return Check(name=package, state=OK, found=found)


def _version(package: str) -> str:
    """The version, or PackageNotFoundError. The PySpark that spark-submit puts on the path was never installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        if package != "pyspark" or find_spec(package) is None:
            raise
        from pyspark.version import __version__

        return __version__


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])


def _java() -> Check:
    try:
        java = find_java()
    except NoJava as error:
        found, _, way_out = str(error).partition(": ")
        return Check(name="Java", state=FAIL, found=found, way_out=way_out)
    except OSError as error:
        return Check(name="Java", state=FAIL, found=root_cause(error), way_out="set JAVA_HOME to a Java that runs")
    return Check(name="Java", state=OK, found=f"{java.version} ({java.program}, found by {java.found_as})")


def _host(local: bool) -> Check:
    name = "host name"
    if said := said_address():
        return Check(name=name, state=OK, found=f"not asked for, {said}")
    wrong = wrong_name()
    if wrong is None:
        return Check(name=name, state=OK, found=f"{socket.gethostname()} leads to this machine")
    if local:
        return Check(
            name=name,
            state=WARN,
            found=f"{wrong}, so local sessions made by localqueue use {LOOPBACK}",
            way_out=f"set SPARK_LOCAL_IP={LOOPBACK} for sessions that you make yourself, or repair /etc/hosts",
        )
    return Check(
        name=name,
        state=WARN,
        found=wrong,
        way_out="add it to /etc/hosts, or set SPARK_LOCAL_IP to the address by which the executors reach this machine",
    )


def _spark_home() -> Check:
    home = os.environ.get("SPARK_HOME")
    own = find_spec("pyspark")
    if not home or own is None or own.origin is None:
        return Check(name="Spark", state=OK, found="the one that PySpark brings")
    if os.path.realpath(own.origin).startswith(os.path.join(os.path.realpath(home), "")):
        return Check(name="Spark", state=OK, found=home)
    return Check(
        name="Spark",
        state=WARN,
        found=f"SPARK_HOME={home}",
        way_out="it must be the version of PySpark; unset SPARK_HOME to use the one that PySpark brings",
    )


def _discovery() -> Check:
    if find_spec("pyspark_localqueue") is None:
        return Check(
            name="discovery",
            state=WARN,
            found='module pyspark_localqueue is missing, so format("localqueue") is unknown without register(spark)',
            way_out="install the package, do not copy it",
        )
    return Check(name="discovery", state=OK, found="pyspark_localqueue can be imported")
