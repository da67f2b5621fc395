"""Creating, recognising and migrating the environment.

The key `meta` marks it as ours and holds the schema's version. A migration is a function that leads from a version to
the next inside a transaction; all pending ones run in one, so that a crash leaves the old version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from localqueue.errors import QueueStoreVersionError
from localqueue.ids import new_secret
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.driver import Txn

MAGIC = b"localqueue queue"

_META = struct.Struct(">16sI")
_NAMESPACE = struct.Struct(">IQ")

#: `MIGRATIONS[n]` leads from version n + 1 to n + 2.
MIGRATIONS: list[Callable[[Txn], None]] = []


def current_version() -> int:
    return len(MIGRATIONS) + 1


def version(txn: Txn, path: str) -> int:
    """The schema version, 0 for an empty environment; refuses what is not ours or too new."""
    meta = txn.get(keys.META)
    if meta is None and not txn.cursor().first():
        return 0
    if meta is None or len(meta) != _META.size or not meta.startswith(MAGIC):
        raise QueueStoreVersionError(
            f"{path!r} is an LMDB environment of another program; nothing was changed, choose another store_path",
            path=path,
        )
    found = int(_META.unpack(meta)[1])
    if found > current_version():
        raise QueueStoreVersionError(
            f"unsupported LMDB queue schema version: {found}; expected at most {current_version()}: "
            f"{path!r} was written by a newer localqueue, upgrade this one",
            path=path,
        )
    return found


def prepare(txn: Txn, path: str) -> None:
    """Make sure the environment has the current schema."""
    found = version(txn, path)
    if found == current_version():
        return
    for migration in MIGRATIONS[max(found, 1) - 1 :]:
        migration(txn)
    txn.put(keys.META, _META.pack(MAGIC, current_version()))


def find_namespace(txn: Txn, name: str) -> tuple[int, int] | None:
    value = txn.get(keys.namespace(name))
    return None if value is None else _NAMESPACE.unpack(value)


def namespace(txn: Txn, name: str) -> tuple[int, int]:
    """Number and secret of a namespace, made on first use."""
    found = find_namespace(txn, name)
    if found is None:
        taken = [_NAMESPACE.unpack(value)[0] for _, value in keys.walk(txn, b"N")]
        found = (max(taken, default=0) + 1, new_secret())
        txn.put(keys.namespace(name), _NAMESPACE.pack(*found))
    return found
