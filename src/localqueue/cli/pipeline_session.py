"""The Spark session of a `localqueue pipeline` command: started quietly, stopped at the end, its errors in one line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import shared
from localqueue.cli.config import Config
from localqueue.cli.errors import CommandFailed, Mistake, say
from localqueue.cli.place import Place
from localqueue.cli.signals import stop_by_signal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK = 0.5
_NEEDED = ("pyspark", "pandas", "pyarrow")
MISSING = 'this command needs Spark: pip install "localqueue[spark,cli]"'


@shared
@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where Spark runs, and how."""

    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where Spark runs, e.g. local[4], sc://host or sail; this machine without it."
        ),
    ] = None
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Setting of Spark; may be repeated.")] = (
        None
    )
    spark_log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Append what Spark and its tasks print; without it, nowhere.")
    ] = None

    def settings(self) -> dict[str, str]:
        """The `--conf` options as a dict."""
        found = {}
        for one in self.conf or ():
            name, equals, value = one.partition("=")
            if not (name and equals):
                raise Mistake(f"--conf is KEY=VALUE, such as spark.driver.memory=4g, not {one!r}")
            found[name] = value
        return found

    @contextmanager
    def session(self, *, brief: Callable[[], bool] = bool) -> Iterator[SparkSession]:
        """A session that is stopped at the end, unless it was there before. `brief` tells whether it is for work of
        seconds, and is asked when one is started."""
        need_spark()
        settings = self.settings()
        from pyspark.sql import SparkSession

        from localqueue.spark.spark_session import session

        started = SparkSession.getActiveSession() is None
        with _no_second_word(), short_errors():
            is_brief = started and brief()
            with self.quiet():
                spark = session(master=self.master, conf=settings, brief=is_brief)
            try:
                yield spark
            finally:
                if started:
                    spark.stop()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What is started in this block writes its stderr to the log, for as long as it lives."""
        with self._log() as log:
            sys.stderr.flush()
            ours = os.dup(2)
            os.dup2(log.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(ours, 2)
                os.close(ours)

    def _log(self) -> IO[bytes]:
        if self.spark_log is None:
            return open(os.devnull, "wb")
        return open(self.spark_log, "ab")


@contextmanager
def _no_second_word() -> Iterator[None]:
    """PySpark writes errors of a query to stderr as JSON, beside raising them: the latter is enough."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    for one in loggers:
        one.addFilter(_nothing)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def need_spark() -> None:
    if not all(map(find_spec, _NEEDED)):
        raise CommandFailed(MISSING)


@contextmanager
def short_errors() -> Iterator[None]:
    """An error of Spark or of Java as one line; the rest are errors as any other command has them."""
    from pyspark.errors import PySparkException

    from localqueue.spark.java import NoJava
    from localqueue.spark.root_cause import root_cause
    from localqueue.spark.sail import NoSail
    from localqueue.spark.task_python import WrongPython

    expected: tuple[type[Exception], ...] = (PySparkException,)
    with suppress(ImportError):  # a client without Java has no bridge to it
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        expected = (PySparkException, Py4JError)
    try:
        yield
    except (NoJava, NoSail, WrongPython) as error:
        raise CommandFailed(str(error)) from error
    except expected as error:
        hint = ""
        if "JAVA_GATEWAY_EXITED" in str(error):
            hint = "; --spark-log FILE keeps what it said, localqueue pipeline doctor looks for the cause"
        raise CommandFailed(f"Spark: {root_cause(error)}{hint}") from error


def where(place: Place) -> dict[str, Any]:
    """The store as arguments of a function of `localqueue.spark`: the url with its password, and the namespace."""
    from localqueue.stores.default import Settings, environment

    if place.store is not None and place.store_path is not None:
        raise Mistake("pass either --store or --store-path, not both")
    config = Config.load()
    backend, there, named = environment()
    namespace = next((one for one in (place.namespace, named, config.namespace) if one is not None), None)
    url, path = place.store, place.store_path
    if url is None and path is None and backend is None and there is None:
        url, path = config.store_url, config.store_path
    if path is not None:
        from urllib.parse import quote

        url = f"sqlite:///{quote(os.path.abspath(path))}"
    settings = Settings.of(backend, there, namespace) if url is None else Settings.of(None, url, namespace)
    return {"url": settings.url, "namespace": settings.namespace}


def follow(query: StreamingQuery) -> int | None:
    """Wait until a stream ends or a signal ends it; the number of its last batch."""
    with stop_by_signal() as stop:
        while query.isActive and not stop.wait(_LOOK):
            pass
    last = query.lastProgress
    query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure
    return None if last is None else last.batchId


def teller(wanted: bool) -> Callable[..., Any] | None:
    """Progress on stderr, a line each time, or nothing."""

    def tell(*parts: object) -> None:
        say(" of ".join(map(str, parts)))

    return tell if wanted else None


Table = Annotated[
    str | None, typer.Option(metavar="NAME", help="A table of a catalog instead of PATH, such as lake.db.journal.")
]
Progress = Annotated[bool, typer.Option("--progress", help="Tell on stderr how far it is.")]
