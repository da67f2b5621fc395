"""The checks of `doctor` that need a running session."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localqueue.spark import checkup_store
from localqueue.spark.checkup import FAIL, OK, WARN, Check
from localqueue.spark.root_cause import root_cause
from localqueue.spark.spark_session import session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TASK = "python string, program string, host string, version string, error string"


def with_session(
    spark: SparkSession | None,
    *,
    url: str | None,
    namespace: str | None,
    master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[Check]:
    from pyspark.sql import SparkSession

    began = time.monotonic()
    started = spark is None and SparkSession.getActiveSession() is None
    try:
        spark = spark if spark is not None else session(master=master, conf=conf)
        name = f"{spark.version} on {spark.conf.get('spark.master', master or 'a server')}"
    except Exception as error:
        yield Check(
            name="session",
            state=FAIL,
            found=root_cause(error),
            way_out="see that Java, the host's name, memory and --master are right",
        )
        return
    try:
        yield Check(name="session", state=OK, found=f"Spark {name}, ready after {time.monotonic() - began:.0f} s")
        yield _tasks(spark)
        yield _found_unregistered(spark)
        yield _round_trip(spark)
        if url is not None or namespace is not None:
            yield _store(spark, url, namespace)
    finally:
        if started:
            spark.stop()


def _tasks(spark: SparkSession) -> Check:
    """Whether a task runs the same Python and can import the package."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import socket
        import sys

        import pyarrow as pa

        for _ in batches:
            version, error = None, None
            try:
                from localqueue import _version

                version = _version.__version__
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}"
            python = ".".join(map(str, sys.version_info[:3]))
            row = [python, sys.executable, socket.gethostname(), version, error]
            yield pa.RecordBatch.from_arrays(
                [pa.array([one], pa.string()) for one in row], names=["python", "program", "host", "version", "error"]
            )

    way_out = "install localqueue, in the same version, for the Python of the executors (PYSPARK_PYTHON)"
    try:
        row = spark.range(0, 1, 1, 1).mapInArrow(look, _TASK).collect()[0]
    except Exception as error:
        return Check(name="tasks", state=FAIL, found=root_cause(error), way_out=way_out)
    from localqueue._version import __version__

    found = f"Python {row['python']} ({row['program']} on {row['host']})"
    if row["error"] is not None:
        return Check(
            name="tasks", state=FAIL, found=f"{found} can not import localqueue: {row['error']}", way_out=way_out
        )
    if row["version"] != __version__:
        here = f"localqueue {row['version']} and not {__version__}"
        return Check(name="tasks", state=WARN, found=f"{found} has {here}", way_out=way_out)
    if row["python"].split(".")[:2] != [str(part) for part in sys.version_info[:2]]:
        return Check(name="tasks", state=WARN, found=f"{found} is not the version of the driver", way_out=way_out)
    return Check(name="tasks", state=OK, found=f"{found}, localqueue {row['version']}")


def _found_unregistered(spark: SparkSession) -> Check:
    """Whether a session that was told nothing knows the format."""
    name = 'format("localqueue")'
    try:
        fresh = spark.newSession()
    except Exception:
        return Check(name=name, state=OK, found="not looked for in another session, which Spark Connect does not make")
    with tempfile.TemporaryDirectory() as folder:
        try:
            fresh.read.format("localqueue").option("url", _file(folder)).option("queue", "doctor").load().schema  # noqa: B018
        except Exception as error:
            return Check(
                name=name, state=FAIL, found=root_cause(error), way_out="call localqueue.spark.register(spark)"
            )
    return Check(name=name, state=OK, found="is known without register")


def _round_trip(spark: SparkSession) -> Check:
    """Three messages into a new SQLite file and out of it."""
    name = "round trip"
    if not str(spark.conf.get("spark.master", "")).startswith("local["):
        return Check(name=name, state=OK, found="left out: the executors do not share files with this machine")
    with tempfile.TemporaryDirectory() as folder:
        there = {"url": _file(folder), "queue": "doctor"}
        try:
            rows = spark.createDataFrame([(f'{{"n":{n}}}',) for n in range(3)], "value string")
            rows.write.format("localqueue").options(**there).mode("append").save()
            read = spark.read.format("localqueue").options(**there).load().select("value").collect()
        except Exception as error:
            return Check(name=name, state=FAIL, found=root_cause(error), way_out="LOCALQUEUE_TRACEBACK=1 shows where")
    found = sorted(row["value"] for row in read)
    if found != [f'{{"n":{n}}}' for n in range(3)]:
        return Check(name=name, state=FAIL, found=f"wrote 3 messages and read {found}", way_out="please report this")
    return Check(name=name, state=OK, found="3 messages written to a SQLite file and read again")


def _file(folder: str) -> str:
    return f"sqlite:///{Path(folder) / 'doctor.db'}"


def _store(spark: SparkSession, url: str | None, namespace: str | None) -> Check:
    """Whether the store answers here and in a task."""
    options = checkup_store.named(url, namespace)
    here = checkup_store.answers_here(options)
    if isinstance(options, Check) or here.state == FAIL:
        return here

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            told = checkup_store.answer(options)
            yield pa.RecordBatch.from_arrays([pa.array([one], pa.string()) for one in told.values()], names=list(told))

    try:
        there = spark.range(0, 1, 1, 1).mapInArrow(look, "host string, url string, error string").collect()[0].asDict()
    except Exception as failure:
        there = {"error": root_cause(failure)}
    if there["error"] is not None:
        return replace(
            here,
            state=FAIL,
            found=f"answers here, and not to a task: {there['error']}",
            way_out="use an address that the executors reach and install its driver there; a file needs a shared disk",
        )
    return replace(here, found=f"{here.found} and to a task on {there['host']}")
