"""Records in SQLite: looked up with a claim, and written as their versions allow, many in a statement."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from localqueue.errors import RecordConflict
from localqueue.stores.port import LeaseRequest, Record, RecordWrite, StoredMessage
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.rows import Execute
    from localqueue.stores.sqlite.store import SQLiteQueueStore

_ROWS_AT_ONCE = (64, 8, 1)


def with_record(
    store: SQLiteQueueStore, execute: Execute, request: LeaseRequest, message: StoredMessage
) -> StoredMessage:
    """The message with what the ledger says about its dedupe key."""
    if request.ledger is None or message.dedupe_key is None:
        return message
    key = f"{request.queue}:{message.dedupe_key}"
    row = execute(sql.RECORD, (store.namespace_id, request.ledger, key)).fetchone()
    return message if row is None else message._replace(record=Record(*row))


def write_records(store: SQLiteQueueStore, execute: Execute, now: float, writes: Sequence[RecordWrite]) -> list[int]:
    """Set or delete records; their new versions. A version is never used again, so a stale `expect` can not match by
    chance."""
    if not writes:
        return []
    if all(write.expect is None and write.value is not None for write in writes):
        return _put_records(store, execute, now, writes)
    versions: list[int] = []
    for expect, some in groupby(writes, lambda one: -1 if one.value is None or one.expect else one.expect):
        if expect == -1:
            versions += [_write_record(store, execute, now, one) for one in some]
        else:
            versions += _put_records(store, execute, now, list(some), new=expect == 0)
    return versions


def _put_records(
    store: SQLiteQueueStore, execute: Execute, now: float, writes: Sequence[RecordWrite], *, new: bool = False
) -> list[int]:
    """Set records, whatever they were or only where there is none, in statements of a few sizes."""
    namespace, first = store.namespace_id, store.ids.reserve(len(writes))
    if len(writes) == 1 and not new:
        ((kind, key, value, _, _),) = writes
        execute(sql.PUT_RECORD, (namespace, kind, key, value, first, now))
        return [first]
    cells = [(namespace, one.kind, one.key, one.value, version, now) for version, one in enumerate(writes, first)]
    written = 0
    for size in _ROWS_AT_ONCE:
        while len(cells) >= size:
            done = execute(_statement(size, new), [cell for row in cells[:size] for cell in row])
            written += done.rowcount
            del cells[:size]
    if new and written < len(writes):
        taken = (one for version, one in enumerate(writes, first) if _version(store, execute, one) != version)
        raise _conflict(store, execute, next(taken))
    return list(range(first, first + len(writes)))


@functools.cache
def _statement(count: int, new: bool) -> str:
    row = "(?, ?, ?, ?, ?, ?)"
    return (sql.NEW_RECORD if new else sql.PUT_RECORD).replace(row, ", ".join([row] * count))


def _write_record(store: SQLiteQueueStore, execute: Execute, now: float, write: RecordWrite) -> int:
    """Delete a record, or set one that must be in a version; its new version."""
    kind, key, value, expect, _ = write
    if value is None:
        changed = execute(sql.DELETE_RECORD, (store.namespace_id, kind, key, expect)).rowcount
        if changed or (not expect and _version(store, execute, write) == 0):
            return 0
    else:
        version = store.ids.reserve()
        if execute(sql.SET_RECORD, (store.namespace_id, kind, key, value, version, now, expect)).rowcount:
            return version
    raise _conflict(store, execute, write)


def _conflict(store: SQLiteQueueStore, execute: Execute, write: RecordWrite) -> RecordConflict:
    return RecordConflict(
        f"record {write.key!r} of kind {write.kind!r} is in version {_version(store, execute, write)}, not "
        f"{write.expect}; nothing was changed"
    )


def _version(store: SQLiteQueueStore, execute: Execute, write: RecordWrite) -> int:
    row = execute(sql.RECORD_VERSION, (store.namespace_id, write.kind, write.key)).fetchone()
    return 0 if row is None else int(row[0])
