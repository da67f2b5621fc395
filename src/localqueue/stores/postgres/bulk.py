"""Many plain messages at once, by COPY."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localqueue.errors import IdTaken
from localqueue.stores.port import RecordWrite
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.operate import write_records
from localqueue.stores.postgres.tx import Tx

if TYPE_CHECKING:
    from localqueue.stores.postgres.store import PostgresQueueStore

#: From how many messages on COPY is faster than one INSERT.
COPY_FROM = 200

_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = b"\xff\xff"
_A_PIECE = 1 << 18


def copy_batch(
    store: PostgresQueueStore,
    queue: int,
    keys: range,
    payloads: Sequence[tuple[bytes, bool]],
    codec: str | None,
    mark: str,
    records: Sequence[RecordWrite] = (),
) -> float:
    """Insert the messages in one transaction that also tells of them; the time at which they were created.

    Records come first: a batch that is refused then costs little, and one that another writer is about to write waits.
    """
    with store._pool.connection() as connection:
        now = store._begin(connection, set())
        if records:
            write_records(Tx(store, connection, now, set()), records)
        try:
            with connection.cursor() as cursor, cursor.copy(store.sql.COPY_BATCH) as copy:
                _write(copy.write, queue, keys, payloads, codec, now)
        except store._driver_error as error:
            if driver.constraint_of(error) == "lq_messages_pkey":
                raise IdTaken("a message id of this batch is in use") from error
            raise
        connection.execute("SELECT pg_notify($1, $2)", (store.channel, mark))
        connection.execute("COMMIT")
        return now


def _write(
    write: object, queue: int, keys: range, payloads: Sequence[tuple[bytes, bool]], codec: str | None, now: float
) -> None:
    """The rows in COPY's binary format: a count of columns, and each column behind its length."""
    row = struct.Struct(">hiqiiihididi").pack
    name = b"\xff\xff\xff\xff" if codec is None else struct.pack(">i", len(codec.encode())) + codec.encode()
    text, binary = b"\x00\x00\x00\x01\x01" + name, b"\x00\x00\x00\x01\x00" + name
    pieces, size = [_HEADER], 0
    for key, (payload, is_text) in zip(keys, payloads, strict=True):
        pieces += (row(8, 8, key, 4, queue, 2, 0, 8, now, 8, now, len(payload)), payload, text if is_text else binary)
        size += len(payload)
        if size > _A_PIECE or len(pieces) > 3000:
            write(b"".join(pieces))  # type: ignore[operator]
            pieces, size = [], 0
    write(b"".join([*pieces, _TRAILER]))  # type: ignore[operator]
