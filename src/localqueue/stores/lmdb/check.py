"""The integrity check."""

from __future__ import annotations

import struct
from collections import Counter

from localqueue.errors import QueueStoreError
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, INFLIGHT, WAITING, Row
from localqueue.stores.lmdb import keys, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.schema import QueueRow, index_entries
from localqueue.stores.port import STATES, CheckReport

_MOST_PROBLEMS = 20


def check(txn: Txn) -> CheckReport:
    """Walk everything: rows can be read, and indexes, counts, leases, keys and dependencies agree with them."""
    problems: list[str] = []
    queues = {}
    for key, value in keys.walk(txn, keys.QUEUES):
        queue = int.from_bytes(key[1:], "big")
        try:
            queues[queue] = QueueRow.unpack(queue, value)
        except (struct.error, ValueError, QueueStoreError) as error:
            problems.append(f"queue number {queue} can not be read: {error}")
    found: Counter[tuple[int, int]] = Counter()
    indexed: Counter[bytes] = Counter()
    due: dict[int, float] = {}
    for key, value in keys.walk(txn, keys.MESSAGES):
        number = keys.last_number(key)
        try:
            row = schema.unpack_row(number, value)
            problems += _message_problems(txn, row, queues)
        except (struct.error, ValueError, AssertionError, QueueStoreError) as error:
            problems.append(f"message {number} can not be read: {error}")
            continue
        found[row.queue, row.state] += 1
        indexed.update(key[:1] for key in index_entries(row, row, row.due_at))
        if row.due_at is not None:
            due[row.queue] = min(row.due_at, due.get(row.queue, rules.NEVER))
        if len(problems) > _MOST_PROBLEMS:
            break
    else:
        problems += _queue_problems(queues, found, due) + _strays(txn, indexed, found.total())
    return CheckReport(tuple(problems[:_MOST_PROBLEMS]))


def _message_problems(txn: Txn, row: Row, queues: dict[int, QueueRow]) -> list[str]:
    problems = []
    content = txn.get(keys.one(keys.CONTENTS, row.key))
    if content is None:
        problems.append(f"message {row.key} has no payload")
    else:
        schema.unpack_content(content)
    if row.queue not in queues:
        problems.append(f"message {row.key} is in a queue that does not exist")
    if row.run and txn.get(keys.one(keys.RUNS, row.run)) is None:
        problems.append(f"message {row.key} is in a run that does not exist")
    if row.state == INFLIGHT and (row.leased_until is None or row.leased_at is None):
        problems.append(f"an inflight message has no lease: {row.key}")
    if row.state == BLOCKED and (
        row.ordering_key is None or txn.get(keys.held(keys.HEADS, row.queue, row.ordering_key)) is None
    ):
        problems.append(f"a message is blocked behind an ordering key that nobody holds: {row.key}")
    if row.state == WAITING and row.waiting_on != sum(
        1 for _ in keys.walk_keys(txn, keys.one(keys.UPSTREAMS, row.key))
    ):
        problems.append(f"a waiting message does not count its dependencies: {row.key}")
    for key, value in index_entries(row, row, row.due_at).items():
        stored = txn.get(key)
        if stored is None:
            problems.append(f"index {key[:1]!r} does not list message {row.key}")
        elif stored != value:
            two = "an ordering key has two messages in delivery"
            problems.append(f"{two if key[:1] == keys.HEADS else f'index {key[:1]!r} is wrong'}: {row.key}")
    return problems


def _queue_problems(queues: dict[int, QueueRow], found: Counter[tuple[int, int]], due: dict[int, float]) -> list[str]:
    problems = []
    for queue, row in queues.items():
        for state, count in enumerate(row.counts):
            real = found[queue, state]
            if real != count:
                problems.append(f"queue {row.name!r} counts {count} {STATES[state]} messages but has {real}")
        if row.due > due.get(queue, rules.NEVER):
            problems.append(f"a queue would miss a timer: {row.name}")
    return problems


def _strays(txn: Txn, indexed: Counter[bytes], messages: int) -> list[str]:
    """Entries that belong to no message. Every message found its own, so it is enough to count."""
    problems = []
    for table in keys.INDEXES:
        stored = sum(1 for _ in keys.walk_keys(txn, table))
        if stored != indexed[table]:
            problems.append(f"index {table!r} has {stored} entries for {indexed[table]} of the messages")
    contents = sum(1 for _ in keys.walk_keys(txn, keys.CONTENTS))
    if contents != messages:
        problems.append(f"there are {contents} payloads for {messages} messages")
    down, up = (sum(1 for _ in keys.walk_keys(txn, table)) for table in (keys.DEPENDENTS, keys.UPSTREAMS))
    if down != up:
        problems.append(f"dependencies are known {down} times from above but {up} times from below")
    for key in keys.walk_keys(txn, keys.ATTEMPTS):
        if txn.get(keys.message(int.from_bytes(key[1:9], "big"))) is None:
            problems.append(f"there is history of a message that does not exist: {int.from_bytes(key[1:9], 'big')}")
            break
    return problems
