"""Read-only connections to the database of a store, for a SELECT on its tables that gives Arrow back.

ADBC brings a SQLite of its own. Two of them in one process on one file undo each other's locks, because closing a file
drops every lock that the process has on it. So ADBC is not used while this process has the file open otherwise.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from localqueue.errors import QueueStoreLockedError, QueueStoreUnavailableError
from localqueue.spark.options import OptionError, Options
from localqueue.spark.place import PATIENCE
from localqueue.stores.address import parse
from localqueue.stores.sqlite.onlooker import Look, copy_of
from localqueue.stores.url import path_of

if TYPE_CHECKING:
    import pyarrow as pa

_by_adbc: Counter[str] = Counter()  # files that ADBC has open in this process


class Connection(Protocol):
    """One open connection. All that is read through it is of one moment."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]: ...
    def batches(self, statement: str, raw: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a statement that selects these raw columns (see `localqueue.spark.source.tables`)."""


def engine_of(options: Options) -> str:
    """`adbc`, `sql` (Python's own driver on the same tables) or `scan` (through the store's port)."""
    backend, wanted = options.backend, options.engine
    if backend not in ("sqlite", "pg"):
        if wanted == "adbc":
            raise OptionError("option 'engine' is 'adbc', which reads sqlite:// and postgresql:// only: use 'auto'")
        return "scan"
    if wanted == "python":
        return "sql"
    needed = ("adbc_driver_manager", "adbc_driver_sqlite" if backend == "sqlite" else "adbc_driver_postgresql")
    missing = next((name for name in needed if find_spec(name) is None), None)
    if missing is None:
        return "adbc"
    if wanted == "adbc":
        raise OptionError(
            f"option 'engine' is 'adbc' and {missing} is not installed: "
            "pip install \"localqueue[spark]\", or use engine 'auto'"
        )
    return "sql"


@contextmanager
def connected(options: Options, engine: str) -> Iterator[Connection]:
    """A connection that is closed at the end."""
    from localqueue.spark.source import adbc, cursors

    if options.backend == "pg":
        with (adbc.postgres if engine == "adbc" else cursors.postgres)(options) as connection:
            yield connection
        return
    path = path_of(options.url)  # which is absolute in options
    with _looked_at(path) as uri:
        if engine != "adbc" or (not _by_adbc[path] and _is_open_here(path)):
            with cursors.sqlite(uri) as connection:
                yield connection
            return
        _by_adbc[path] += 1
        try:
            with adbc.sqlite(uri) as connection:
                yield connection
        finally:
            _by_adbc[path] -= 1


@contextmanager
def _looked_at(path: str) -> Iterator[str]:
    """The address of a file for SQLite to read, which leaves no log beside it; see `localqueue.stores.sqlite.onlooker`.

    Whoever closes the file last puts the log away, if he may: so also tasks that read beside each other are allowed to.
    Where this user may not write and nobody has the file open, it is read as one that does not change, and that it did
    not is checked.
    """
    look = Look.at(path)
    writable = os.access(path, os.W_OK) and os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)
    if look.is_in_use:
        yield f"file://{quote(path)}?mode={'rw' if writable else 'ro'}"
        return
    if look.has_log_left:
        with copy_of(path) as copy:
            yield f"file://{quote(copy)}?mode=rw"
    elif writable:
        yield f"file://{quote(path)}?mode=rw"
        return
    else:
        yield f"file://{quote(path)}?immutable=1"
    if Look.at(path) != look:
        raise QueueStoreLockedError(
            f"SQLite queue store at {path!r} changed while it was read; read it again", path=path
        )


def conninfo(options: Options) -> str:
    """The address of a PostgreSQL database with the patience that we have for it."""
    from psycopg.conninfo import make_conninfo

    from localqueue.stores.postgres.errors import parameters_of

    ours: dict[str, Any] = {"connect_timeout": round(PATIENCE), "application_name": "localqueue"}
    return make_conninfo("", **{**ours, **parameters_of(parse(options.url))})


def unreachable(options: Options, error: Exception) -> QueueStoreUnavailableError:
    """The driver's error as ours. Neither shows a password afterwards."""
    address = parse(options.url)
    address.cleanse(error)
    where, reason = address.shown, " ".join(str(error).split())
    return QueueStoreUnavailableError(f"PostgreSQL queue store at {where!r} can not be reached ({reason})", path=where)


def _is_open_here(path: str) -> bool:
    """Whether this process has the file open, as far as the system tells."""
    links = Path("/proc/self/fd")
    if not links.is_dir():
        return False
    real = os.path.realpath(path)
    for link in links.iterdir():
        with suppress(OSError):  # the one that lists them is gone by now
            if os.readlink(link) == real:
                return True
    return False
