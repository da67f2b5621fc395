"""Sail in the place of Spark: an engine without Java that speaks Spark Connect, inside this process.

It runs the data source in threads of the process that started it, so a store is opened by as many of them as there are
tasks. `docs/sail.md` says what works on it and what does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What `master` has to be for it.
MASTER = "sail"
#: A setting that its sessions have, and no other.
MARK = "spark.localqueue.sail"
_INSTALL = (
    'pip install "localqueue[sail]" into an environment of its own: it needs PySpark 4.1, and localqueue[spark] a '
    "newer one"
)

_server: Any = None


class NoSail(RuntimeError):
    """Sail can not be started here; the message says what to install."""


class StreamsMissing(ValueError):
    """A stream was asked for on Sail."""


def start() -> str:
    """The address of this process's Sail, which is started when it is first asked for; or NoSail."""
    global _server
    if _server is None:
        _server = _started()
    host, port = _server.listening_address
    return f"sc://{host}:{port}"


def runs(spark: SparkSession) -> bool:
    """Whether a session is one that was made for this process's Sail."""
    return _server is not None and spark.conf.get(MARK, "false") == "true"


def need_streams(spark: SparkSession, what: str) -> None:
    """Refuse a job that Sail can not do: its streams know no Python sources and no foreachBatch."""
    if runs(spark):
        raise ValueError(f"{what} is a stream, which Sail can not run for this source: use a session of Spark for it")


def refuse_streams(what: str) -> None:
    raise StreamsMissing(
        f"{what} needs streams, which Sail does not have: use Spark, which the extra localqueue[spark] brings with its "
        "Java, or a batch read"
    )


def _started() -> Any:
    import pyspark

    os.environ.setdefault("RUST_LOG", "error")  # it tells of every query on stderr
    try:
        from pysail.spark import SparkConnectServer
    except ImportError:
        raise NoSail(f"master is 'sail' and pysail is not installed: {_INSTALL}") from None
    if tuple(map(int, pyspark.__version__.split(".")[:2])) > (4, 1):
        raise NoSail(f"master is 'sail' and PySpark is {pyspark.__version__}, which Sail refuses: {_INSTALL}")
    server = SparkConnectServer()
    server.start(background=True)
    return server
