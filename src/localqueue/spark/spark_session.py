"""A Spark session that knows `format("localqueue")`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localqueue.spark.lineage_parent import with_a_run
from localqueue.spark.task_python import need_package, use_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()

#: What a session made here has unless the user says otherwise: quiet, Arrow, times in UTC.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
    _PUSHDOWN: "true",
}


def register(spark: SparkSession) -> SparkSession:
    """Make the data source known to a session and allow it to take filters where a read asks for that; the session
    itself.

    Spark finds the source by itself where the package is installed. This also tells early that tasks could not run:
    WrongPython where the Python that Spark starts does not have the package, which nothing can change once the session
    runs.
    """
    from localqueue.spark.datasource import LocalQueueDataSource

    if not is_remote(spark):
        need_package(spark)
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(LocalQueueDataSource)
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a client of a Spark Connect server, which has no Java here."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session(
    app_name: str = "localqueue",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    brief: bool = False,
) -> SparkSession:
    """The running Spark session, or a new one, that knows the data source.

    A new one has its driver here: a Java is found, or taken from the extra, before Spark is started, a local one does
    not need the host's name, and its tasks run this Python unless another one is named. With a `master` that begins
    with `sc://` it is a session of a Spark Connect server, and with the master `sail` one of Sail, which needs no Java.
    `conf` are settings of Spark, for a new one. `brief` is for work of seconds: its Java compiles quickly and not well,
    which halves what a new session costs and makes long work slower.
    """
    from pyspark.sql import SparkSession

    from localqueue.spark import sail

    running = SparkSession.getActiveSession()
    if running is None:
        builder: Any = SparkSession.builder.appName(app_name)
        if master == sail.MASTER:
            master, conf = sail.start(), {**(conf or {}), sail.MARK: "true"}
        if master is not None and master.startswith("sc:"):
            builder, settings = builder.remote(master), dict(conf or {})
        else:
            builder, settings = builder if master is None else builder.master(master), _here(master, conf or {}, brief)
        for name, value in settings.items():
            builder = builder.config(name, value)
        running = builder.getOrCreate()
    return register(running)


def _here(master: str | None, conf: Mapping[str, str], brief: bool) -> dict[str, str]:
    """The settings of a session whose driver is on this machine, after looking for what it needs."""
    from localqueue.spark.host import use_address
    from localqueue.spark.java import use_java
    from localqueue.spark.local_sockets import socket_settings

    use_java()
    use_address(master, conf)
    use_python(conf)
    java_options = (f"-Dlog4j2.configurationFile={_LOGGING}", _BRIEF if brief else None, conf.get(_JAVA_OPTIONS))
    settings = {**_DEFAULTS, **socket_settings(master, conf), **with_a_run(conf)}
    return {**settings, _JAVA_OPTIONS: " ".join(filter(None, java_options))}
