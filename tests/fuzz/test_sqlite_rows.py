"""A sound SQLite file with content that is not ours: other types, missing rows, tables and triggers, other versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.errors import QueueStoreCorruptError, QueueStoreVersionError
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.fuzz.contents import READS, WRITES, ask, make
from tests.fuzz.effort import examples

#: The columns of each table, and the number by which some of its rows are chosen.
COLUMNS = {
    ("lq_namespaces", "id"): "id name secret",
    ("lq_queues", "id"): "id namespace name delayed dead dropped subscriptions",
    ("lq_messages", "key"): "key queue state priority attempts created_at available_at payload codec headers due_at "
    "forgiven history dependents waiting_on run ordering_key dedupe_key expires_at last_error failed_at ended_at",
    ("lq_line", "key"): "queue part rank position key count until since by most",
    ("lq_dependencies", "upstream"): "upstream dependent",
    ("lq_attempts", "n"): "message n attempt event at leased_at leased_by error",
    ("lq_runs", "id"): "id name total done cancelled_at",
    ("lq_records", "version"): "kind key value version updated_at",
    ("lq_journals", "namespace"): "enabled last keep_seconds keep_events",
    ("lq_journal", "id"): "id at type queue key attempt worker error payload codec options",
    ("lq_workers", "leases"): "worker leases last_seen paused_at",
    ("lq_subscriptions", "n"): "subscriber n",
}
PLACES = [(*table, column) for table, columns in COLUMNS.items() for column in columns.split()]


class Update(NamedTuple):
    place: tuple[str, str, str]
    value: Any
    every: int

    def apply(self, connection: sqlite3.Connection) -> None:
        table, number, column = self.place
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {number} % ? = 0", (self.value, self.every))


class Delete(NamedTuple):
    table: tuple[str, str]
    every: int

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM {self.table[0]} WHERE {self.table[1]} % ? = 0", (self.every,))


class Drop(NamedTuple):
    """Drops one of the objects of the schema."""

    which: int

    def apply(self, connection: sqlite3.Connection) -> None:
        ours = "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL AND name LIKE 'lq_%' ORDER BY name"
        found = connection.execute(ours).fetchall()
        kind, name = found[self.which % len(found)]
        connection.execute(f"DROP {kind} {name}")


class Extra(NamedTuple):
    """A column that nobody fills."""

    table: tuple[str, str]

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"ALTER TABLE {self.table[0]} ADD COLUMN extra NOT NULL DEFAULT NULL")


class Pragma(NamedTuple):
    name: str
    value: int

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA {self.name} = {self.value}")


class SharedVersion(NamedTuple):
    """What a file of an application says of the version, in a file that is ours or another's."""

    value: Any
    owner: int

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA application_id = {self.owner}")
        connection.execute("CREATE TABLE lq_schema (version)")
        if self.value is not ...:
            connection.execute("INSERT INTO lq_schema VALUES (?)", (self.value,))


Change = Update | Delete | Drop | Extra | Pragma | SharedVersion
cells = st.one_of(
    st.sampled_from([None, 0, 1, -1, 3, 9, 100, 2**31, 2**62, -(2**63), 1.5, 1e308, -1e308, float("inf")]),
    st.sampled_from(["", "x", "null", "[]", "5", '{"a":1}', "{", '"t"', "[" * 3000, b"", b"\xff", b"abc"]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
)
updates = st.builds(Update, st.sampled_from(PLACES), cells, st.integers(1, 4))
changes: st.SearchStrategy[Change] = st.one_of(
    updates,
    updates,
    updates,
    st.builds(Delete, st.sampled_from(sorted(COLUMNS)), st.integers(1, 3)),
    st.builds(Drop, st.integers(0, 40)),
    st.builds(Extra, st.sampled_from(sorted(COLUMNS))),
    st.builds(
        Pragma,
        st.sampled_from(["user_version", "application_id"]),
        st.integers(-3, 4) | st.integers(-(2**31), 2**31 - 1),
    ),
    st.builds(SharedVersion, cells | st.just(...), st.sampled_from([0, 7, 0x6C71_7565])),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "store"
    make(partial(SQLiteQueueStore, path))
    return path


ALL = sorted(READS | WRITES)


def only(*changes: Change) -> Any:
    return example(done=list(changes), order=ALL, shared=False)


@given(done=st.lists(changes, min_size=1, max_size=3), order=st.permutations(ALL), shared=st.booleans())
@only(Update(("lq_messages", "key", "state"), 9, 1))
@only(Update(("lq_messages", "key", "expires_at"), "x", 1))
@only(Update(("lq_messages", "key", "last_error"), "[]", 1))
@only(Update(("lq_namespaces", "id", "secret"), "t", 1))
@only(Update(("lq_journals", "namespace", "last"), b"abc", 1))
@only(Update(("lq_queues", "id", "name"), b"\xff", 1))
@only(Delete(("lq_line", "key"), 1))
@only(Pragma("user_version", -1))
@only(Pragma("user_version", 1))
@only(SharedVersion(..., 0))
@only(SharedVersion("x", 7))
@only(*(Drop(n) for n in (25, 12, 3)))
@examples(25)
def test_what_somebody_else_has_written_is_told_or_refused(
    sound: Path, done: list[Change], order: list[str], shared: bool
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(sound.read_bytes())
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.create_function("localqueue_now", 0, lambda: 0.0)
            for one in done:
                with suppress(sqlite3.Error):  # SQLite does not let everything happen
                    one.apply(connection)
        try:
            with SQLiteQueueStore(path, timeout=1.0, shared=shared) as store:
                ask(store, order)
        except (QueueStoreCorruptError, QueueStoreVersionError) as error:
            assert str(path) in str(error)
