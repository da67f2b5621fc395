"""The files of attempt, idempotency and result stores: those of an earlier release open, and new ones are like them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import pytest

from localqueue.idempotency import IdempotencyRecord, LMDBIdempotencyStore, SQLiteIdempotencyStore
from localqueue.results import LMDBResultStore, SQLiteResultStore
from localqueue.retry import LMDBAttemptStore, RetryRecord, SQLiteAttemptStore

LONG = "k" * 450  # longer than a key of LMDB may be
LONG_DIGEST = bytes.fromhex("bb805236be29a637b59ed6872c3d71c817b9baab2dbaeb8aa1a9f70ddb225b35")


class Format(NamedTuple):
    """One kind of store: what was saved, and what it looks like in each file."""

    name: str
    sqlite: Callable[..., Any]
    lmdb: Callable[..., Any]
    saved: dict[str, Any]
    application_id: int
    schema: list[str]
    rows: list[tuple[Any, ...]]
    entries: dict[bytes, bytes]


FORMATS = [
    Format(
        "attempt",
        SQLiteAttemptStore,
        LMDBAttemptStore,
        {"job:1": RetryRecord(3, 1700000000.5, True), "job:2": RetryRecord(1, 1700000001.0, False)},
        0x6C716174,
        [
            "CREATE TABLE attempt_records (\n    key TEXT PRIMARY KEY,\n    attempts INTEGER NOT NULL,\n"
            "    first_attempt_at REAL NOT NULL,\n    exhausted INTEGER NOT NULL\n) WITHOUT ROWID",
            "CREATE INDEX exhausted_attempts ON attempt_records (first_attempt_at) WHERE exhausted = 1",
        ],
        [("job:1", 3, 1700000000.5, 1), ("job:2", 1, 1700000001.0, 0)],
        {
            b"\x00localqueue": b"localqueue attempt".ljust(32, b"\0") + b"\0\0\0\x01",
            b"kjob:1": b'\0\0\0\x05job:1{"attempts":3,"first_attempt_at":1700000000.5,"exhausted":true}',
            b"kjob:2": b'\0\0\0\x05job:2{"attempts":1,"first_attempt_at":1700000001.0,"exhausted":false}',
        },
    ),
    Format(
        "idempotency",
        SQLiteIdempotencyStore,
        LMDBIdempotencyStore,
        {
            "q:a": IdempotencyRecord("succeeded", 1.5, 2.5, "inline", {"result": [1, None, "ü"]}),
            "q:b": IdempotencyRecord("pending", 3.0, metadata={"owner": "me", "until": 60.0}),
            "q:c": IdempotencyRecord("failed", 3.0),
        },
        0x6C716964,
        [
            "CREATE TABLE idempotency_records (\n    key TEXT PRIMARY KEY,\n    status TEXT NOT NULL,\n"
            "    first_seen_at REAL NOT NULL,\n    completed_at REAL,\n    result_key TEXT,\n"
            "    metadata TEXT NOT NULL\n) WITHOUT ROWID",
            "CREATE INDEX completed_records ON idempotency_records (completed_at) WHERE status = 'succeeded'",
        ],
        [
            ("q:a", "succeeded", 1.5, 2.5, "inline", '{"result":[1,null,"ü"]}'),
            ("q:b", "pending", 3.0, None, None, '{"owner":"me","until":60.0}'),
            ("q:c", "failed", 3.0, None, None, "{}"),
        ],
        {
            b"\x00localqueue": b"localqueue idempotency".ljust(32, b"\0") + b"\0\0\0\x01",
            b"kq:a": b'\0\0\0\x03q:a{"status":"succeeded","first_seen_at":1.5,"completed_at":2.5,'
            b'"result_key":"inline","metadata":{"result":[1,null,"\xc3\xbc"]}}',
            b"kq:b": b'\0\0\0\x03q:b{"status":"pending","first_seen_at":3.0,"completed_at":null,'
            b'"result_key":null,"metadata":{"owner":"me","until":60.0}}',
            b"kq:c": b'\0\0\0\x03q:c{"status":"failed","first_seen_at":3.0,"completed_at":null,'
            b'"result_key":null,"metadata":{}}',
        },
    ),
    Format(
        "result",
        SQLiteResultStore,
        LMDBResultStore,
        {LONG: 1, "one": {"a": [1, 2.5, "ü"]}, "two": None},
        0x6C717273,
        ["CREATE TABLE result_records (\n    key TEXT PRIMARY KEY,\n    value TEXT NOT NULL\n)"],
        [(LONG, "1"), ("one", '{"a":[1,2.5,"ü"]}'), ("two", "null")],
        {
            b"\x00localqueue": b"localqueue result".ljust(32, b"\0") + b"\0\0\0\x01",
            b"k" + LONG[:400].encode() + LONG_DIGEST: b"\0\0\x01\xc2" + LONG.encode() + b"1",
            b"kone": b'\0\0\0\x03one{"a":[1,2.5,"\xc3\xbc"]}',
            b"ktwo": b"\0\0\0\x03twonull",
        },
    ),
]


@pytest.fixture(params=FORMATS, ids=lambda form: form.name)
def form(request: pytest.FixtureRequest) -> Format:
    return request.param  # type: ignore[no-any-return]


def holds_what_was_saved(store: Any, form: Format) -> bool:
    return all(store.load(key) == value for key, value in form.saved.items())


def test_a_sqlite_file_of_an_earlier_release_opens(form: Format, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as connection:
        for statement in form.schema:
            connection.execute(statement)
        marks = ", ".join("?" * len(form.rows[0]))
        connection.executemany(f"INSERT INTO {form.name}_records VALUES ({marks})", form.rows)
        connection.commit()
        connection.execute(f"PRAGMA application_id = {form.application_id}")
        connection.execute("PRAGMA user_version = 1")

    with form.sqlite(tmp_path / "s") as store:
        assert holds_what_was_saved(store, form)


def test_a_new_sqlite_file_is_like_those_of_an_earlier_release(form: Format, tmp_path: Path) -> None:
    with form.sqlite(tmp_path / "s") as store:
        for key, value in form.saved.items():
            store.save(key, value)

    with closing(sqlite3.connect(tmp_path / "s")) as connection:
        schema = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        assert schema == [(statement,) for statement in form.schema]
        assert connection.execute(f"SELECT * FROM {form.name}_records ORDER BY key").fetchall() == form.rows
        assert connection.execute("PRAGMA application_id").fetchone() == (form.application_id,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_an_lmdb_directory_of_an_earlier_release_opens(form: Format, tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "s")) as environment, environment.begin(write=True) as txn:
        for key, value in form.entries.items():
            txn.put(key, value)

    with form.lmdb(tmp_path / "s") as store:
        assert holds_what_was_saved(store, form)


def test_a_new_lmdb_directory_is_like_those_of_an_earlier_release(form: Format, tmp_path: Path) -> None:
    with form.lmdb(tmp_path / "s") as store:
        for key, value in form.saved.items():
            store.save(key, value)

    with lmdb.open(str(tmp_path / "s")) as environment, environment.begin() as txn:
        assert dict(txn.cursor()) == form.entries
