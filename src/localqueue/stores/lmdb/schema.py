"""What the environment holds: its mark, its namespaces, and the values of its tables as packed structs.

The key `meta` marks it as ours and holds the schema's version. A migration is a function that leads from a version to
the next inside a transaction; all pending ones run in one, so that a crash leaves the old version.

Each value begins with the version of its layout. A message is two values: its row holds what is decided on and is
rewritten with every change of state; the content (payload, codec, headers) is written once, so that a large payload
never costs anything again.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from localqueue.errors import QueueStoreCorruptError, QueueStoreVersionError
from localqueue.ids import new_secret
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, DEAD, INFLIGHT, READY, Before, Row
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.port import STATES, Payload

MAGIC = b"localqueue queue"
LAYOUT = 1
QUEUE_LAYOUT = 2


_NONE = math.nan  # stands for None in a float field; no time is ever NaN
_META = struct.Struct(">16sI")
_NAMESPACE = struct.Struct(">IQ")
_MESSAGE = struct.Struct("<BBBIqIIIIiQ7d4i")
_CONTENT = struct.Struct("<BBii")
_OLD_QUEUE = struct.Struct("<BB8qdqq")
_QUEUE = struct.Struct("<BB8qdqqqd")
_OLD_RUN = struct.Struct("<BQQd")
_RECORD = struct.Struct("<BQdI")
_TIME = struct.Struct("<d")


def _keep_newest(txn: Txn) -> None:
    """A queue knows the greatest key that one of its messages ever had."""
    newest: dict[int, int] = {}
    for key, value in keys.walk(txn, keys.MESSAGES):
        newest[queue_of(value)] = keys.last_number(key)
    for key, value in list(keys.walk(txn, keys.QUEUES)):
        _, *numbers = _OLD_QUEUE.unpack_from(value)
        fixed = _QUEUE.pack(QUEUE_LAYOUT, *numbers, newest.get(keys.last_number(key), 0), 0.0)
        txn.put(key, fixed + value[_OLD_QUEUE.size :])


def _date_runs(txn: Txn) -> None:
    """A run knows when something of it was last changed."""
    for key, value in list(keys.walk(txn, keys.RUNS)):
        txn.put(key, value[: _OLD_RUN.size] + _TIME.pack(time.time()) + value[_OLD_RUN.size :])


#: `MIGRATIONS[n]` leads from version n + 1 to n + 2.
MIGRATIONS: list[Callable[[Txn], None]] = [_keep_newest, _date_runs]


# the mark and the namespaces


def current_version() -> int:
    return len(MIGRATIONS) + 1


def version(txn: Txn, path: str, *, looking: bool = False) -> int:
    """The schema version, 0 for an empty environment; refuses what is not ours or too new, and what is too old for
    those who look, who can not migrate it."""
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
    if looking and found < current_version():
        raise QueueStoreVersionError(
            f"{path!r} was written by an older localqueue (schema version {found}); open it once without read_only, "
            "which migrates it",
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
    value = txn.get(keys.NAMESPACES + keys.text_key(name))
    return None if value is None else _NAMESPACE.unpack(value)


def namespace(txn: Txn, name: str) -> tuple[int, int]:
    """Number and secret of a namespace, made on first use."""
    found = find_namespace(txn, name)
    if found is None:
        taken = [_NAMESPACE.unpack(value)[0] for _, value in keys.walk(txn, keys.NAMESPACES)]
        found = (max(taken, default=0) + 1, new_secret())
        txn.put(keys.NAMESPACES + keys.text_key(name), _NAMESPACE.pack(*found))
    return found


# parts of values


def require_layout(layout: int, what: str) -> None:
    if layout != LAYOUT:
        raise QueueStoreCorruptError(f"a {what} has the unknown layout {layout}: restore a backup")


def pack_time(time: float | None) -> bytes:
    return _TIME.pack(_NONE if time is None else time)


def unpack_time(value: bytes) -> float | None:
    (time,) = _TIME.unpack(value)
    return None if time != time else time


def pack_texts(*texts: str | None) -> tuple[list[int], bytes]:
    """The lengths of texts, -1 for one that is None, and the texts themselves."""
    if texts.count(None) == len(texts):
        return [-1] * len(texts), b""
    raw = [None if text is None else keys.encoded(text) for text in texts]
    return [-1 if text is None else len(text) for text in raw], b"".join(filter(None, raw))


def unpack_texts(value: bytes, at: int, lengths: list[int]) -> tuple[list[str | None], int]:
    """Texts that begin at a place, and the place where they end."""
    texts: list[str | None] = []
    for length in lengths:
        texts.append(None if length < 0 else _text(value[at : at + length]))
        at += max(length, 0)
    return texts, at


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


_NO_TEXTS = [-1, -1, -1, -1]


# messages


def pack_row(row: Row, due_at: float | None) -> bytes:
    """`due_at` is the row's, which whoever packs it needs as well."""
    lengths, texts = _NO_TEXTS, b""
    if (
        row.leased_by is not None
        or row.ordering_key is not None
        or row.dedupe_key is not None
        or row.last_error is not None
    ):
        lengths, texts = pack_texts(row.leased_by, row.ordering_key, row.dedupe_key, row.last_error)
    since = row.position if row.state == READY else row.leased_at
    fixed = _MESSAGE.pack(
        LAYOUT, row.state, row.dependents > 0, row.queue, row.priority, row.attempts, row.forgiven, row.waiting_on,
        row.history, -1 if row.most is None else row.most, row.run or 0, row.available_at, row.created_at,
        _NONE if due_at is None else due_at,
        _NONE if since is None else since,
        _NONE if row.expires_at is None else row.expires_at,
        _NONE if row.failed_at is None else row.failed_at,
        _NONE if row.ended_at is None else row.ended_at,
        *lengths,
    )  # fmt: skip
    return fixed + texts


def pack_plain(queue: int, now: float, position: float) -> bytes:
    """The row of a message that was put without options."""
    times = (now, now, _NONE, _NONE if position == now else position, _NONE, _NONE, _NONE)
    return _MESSAGE.pack(LAYOUT, READY, False, queue, 0, 0, 0, 0, 0, -1, 0, *times, -1, -1, -1, -1)


def unpack_row(key: int, value: bytes) -> Row:
    (layout, state, dependents, queue, priority, attempts, forgiven, waiting_on, history, most, run, available_at,
     created_at, due_at, since, expires_at, failed_at, ended_at, *lengths,
     ) = _MESSAGE.unpack_from(value)  # fmt: skip
    if layout != LAYOUT:
        require_layout(layout, "message")
    row = Row(
        key, queue, state, priority, created_at, available_at, attempts,
        None if expires_at != expires_at else expires_at,
        None if ended_at != ended_at else ended_at,
        due_at if state == INFLIGHT else None,
        None if since != since else since,
        None,
        None if most < 0 else most,
        forgiven, waiting_on, dependents, history, run or None, None, None, None,
        None if failed_at != failed_at else failed_at,
    )  # fmt: skip
    if state == READY and row.leased_at is not None:
        row.position, row.leased_at = row.leased_at, None
    if lengths != _NO_TEXTS:
        texts, _ = unpack_texts(value, _MESSAGE.size, lengths)
        row.leased_by, row.ordering_key, row.dedupe_key, row.last_error = texts
    return row


def queue_of(value: bytes) -> int:
    """The queue of a packed row, without unpacking the rest."""
    return int.from_bytes(value[3:7], "little")


def state_of(value: bytes) -> int:
    return value[1]


def index_entries(row: Row, at: Row | Before, due_at: float | None) -> dict[bytes, bytes]:
    """Everything the indexes hold about a message as it is, or as it was before; `check` compares them with it."""
    entries: dict[bytes, bytes] = {}
    state, queue, key = at.state, row.queue, row.key
    if state == READY:
        position = at.available_at if at.position is None else at.position
        entries[keys.ready(queue, row.priority, position, key)] = b""
    if due_at is not None:
        entries[keys.timed(keys.DUE, queue, state, due_at, key)] = pack_time(at.expires_at)
    if state >= DEAD:
        assert at.ended_at is not None
        entries[keys.timed(keys.ENDED, queue, state, at.ended_at, key)] = b""
    elif row.dedupe_key is not None:
        entries[keys.held(keys.DEDUPE, queue, row.dedupe_key)] = keys.number(key)
    if row.ordering_key is not None:
        if state <= INFLIGHT:
            entries[keys.held(keys.HEADS, queue, row.ordering_key)] = keys.number(key)
        elif state == BLOCKED:
            entries[keys.held(keys.BLOCKED, queue, row.ordering_key) + keys.number(key)] = b""
    if row.run:
        entries[keys.pair(keys.RUN_MEMBERS, row.run, key)] = b""
    return entries


def pack_content(payload: Payload, codec: str | None, headers: str | None) -> bytes:
    lengths, texts = pack_texts(codec, headers)
    if isinstance(payload, str):
        return _CONTENT.pack(LAYOUT, True, *lengths) + texts + keys.encoded(payload)
    return _CONTENT.pack(LAYOUT, False, *lengths) + texts + payload


def unpack_content(value: bytes) -> tuple[Payload, str | None, str | None]:
    layout, is_text, *lengths = _CONTENT.unpack_from(value)
    if layout != LAYOUT:
        require_layout(layout, "payload")
    (codec, headers), at = unpack_texts(value, _CONTENT.size, lengths)
    return (_text(value[at:]) if is_text else value[at:]), codec, headers


# queues, runs, workers, subscriptions, records


class Form:
    """How a value with a name lies there: the version of its layout, numbers of which NaN is None, then the name."""

    def __init__(self, what: str, numbers: str) -> None:
        self._what = what
        self._struct = struct.Struct("<B" + numbers)

    def pack(self, name: str, *numbers: float | None) -> bytes:
        return self._struct.pack(LAYOUT, *[_NONE if one is None else one for one in numbers]) + keys.encoded(name)

    def unpack(self, value: bytes) -> tuple[str, *tuple[Any, ...]]:
        layout, *numbers = self._struct.unpack_from(value)
        require_layout(layout, self._what)
        return _text(value[self._struct.size :]), *[None if one != one else one for one in numbers]


RUN = Form("run", "QQdd")
WORKER = Form("worker", "BQd")
SUBSCRIPTION = Form("subscription", "Q")
JOURNAL = Form("journal", "BQdq")


@dataclass(slots=True)
class QueueRow:
    """A queue with its kept counts by state. `due` is a lower bound of its messages' `due_at`, `newest` the greatest
    key that one of them ever had, and `position` the place in the line that no message came behind."""

    id: int
    name: str
    counts: list[int] = field(default_factory=lambda: [0] * len(STATES))
    due: float = rules.NEVER
    paused: bool = False
    dropped: int = 0
    subscriptions: int = 0
    newest: int = 0
    position: float = 0.0
    packed: bytes = b""

    def pack(self) -> bytes:
        fixed = _QUEUE.pack(
            QUEUE_LAYOUT,
            self.paused,
            *self.counts,
            self.due,
            self.dropped,
            self.subscriptions,
            self.newest,
            self.position,
        )
        return fixed + keys.encoded(self.name)

    @staticmethod
    def unpack(queue: int, value: bytes) -> QueueRow:
        layout, paused, *counts, due, dropped, subscriptions, newest, position = _QUEUE.unpack_from(value)
        if layout != QUEUE_LAYOUT:
            raise QueueStoreCorruptError(f"a queue has the unknown layout {layout}: restore a backup")
        name = _text(value[_QUEUE.size :])
        return QueueRow(queue, name, counts, due, bool(paused), dropped, subscriptions, newest, position, value)

    def place(self, key: int, at: float) -> float:
        """Where a message that is ready at once enters the line: behind all that are there, whatever the clock says."""
        self.newest = max(self.newest, key)
        self.position = max(self.position, at)
        return self.position

    def due_by(self, at: float) -> None:
        if at < self.due:
            self.due = at


class RunRow(NamedTuple):
    id: int
    name: str
    total: int = 0
    done: int = 0
    cancelled_at: float | None = None
    touched_at: float = 0.0


class WorkerRow(NamedTuple):
    """What a queue knows about a worker."""

    name: str
    paused: int = False
    leases: int = 0
    last_seen: float | None = None


def pack_record(key: str, value: bytes, version: int, updated_at: float) -> bytes:
    raw = keys.encoded(key)
    return b"".join((_RECORD.pack(LAYOUT, version, updated_at, len(raw)), raw, value))


def unpack_record(packed: bytes) -> tuple[str, bytes, int, float]:
    layout, version, updated_at, length = _RECORD.unpack_from(packed)
    require_layout(layout, "record")
    at = _RECORD.size
    return _text(packed[at : at + length]), packed[at + length :], version, updated_at
