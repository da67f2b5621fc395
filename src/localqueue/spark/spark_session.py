"""A Spark session that knows `format("localqueue")`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
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
    """Make the data source known to a session and let Spark push filters down to it; the session itself.

    Spark finds the source by itself where the package is installed. Only filters need this: without it, every row is
    read and then filtered by Spark.
    """
    from localqueue.spark.datasource import RegisteredDataSource

    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RegisteredDataSource)
    return spark


def session(
    app_name: str = "localqueue", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running Spark session, or a new one on this machine, that knows the data source.

    `conf` are settings of Spark, for a new one. A Java is found, or taken from the extra, before Spark is started.
    """
    from pyspark.sql import SparkSession

    from localqueue.spark.java import use_java

    running = SparkSession.getActiveSession()
    if running is None:
        use_java()
        # Spark would start the first python3 of the PATH for its workers: another one, without this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName(app_name)
        if master is not None:
            builder = builder.master(master)
        settings = {**_DEFAULTS, **(conf or {})}
        java_options = (f"-Dlog4j2.configurationFile={_LOGGING}", settings.get(_JAVA_OPTIONS, ""))
        for name, value in {**settings, _JAVA_OPTIONS: " ".join(filter(None, java_options))}.items():
            builder = builder.config(name, value)
        running = builder.getOrCreate()
    return register(running)
