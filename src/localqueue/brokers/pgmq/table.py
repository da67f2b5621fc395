"""The table of one queue of PGMQ, and the statements on it that PGMQ has no function for.

Its own `delete` and `set_vt` take a message from whoever has read it since. Here the number of reads is the fence: who
settles or holds a message says how often it had been read when it was theirs. What was given back has no time of its
last read, where PGMQ keeps that, so that it can not be settled by the one who gave it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from localqueue.stores.postgres.libpq import Quick, array, int4

DEAD = "_dead"
LONGEST_NAME = 47 - len(DEAD)  # PGMQ has 47 characters for the longer of the two queues
_NAME = re.compile(r"(?!.*--)[a-z0-9_][a-z0-9_.-]*")

#: Makes a statement that is prepared under a name of its own.
Prepare = Callable[[str], Quick]


def require_name(queue: str) -> str:
    """A name that PGMQ can have for a queue, and for its dead letters."""
    if not isinstance(queue, str) or not _NAME.fullmatch(queue) or len(queue) > LONGEST_NAME:
        raise ValueError(
            f"PGMQ can not have a queue {queue!r}: its name is 1 to {LONGEST_NAME} lower-case letters, digits, '_', "
            "'-' and '.', without '--'"
        )
    return queue


def channel_of(queue: str) -> str:
    """Where PGMQ, and our trigger, tell of inserts."""
    return f"pgmq.q_{queue}.INSERT"


class Table:
    """The statements on the table of a queue, whose name has been checked, as the installed PGMQ has it."""

    def __init__(self, queue: str, prepare: Prepare, *, has_headers: bool, has_last_read: bool) -> None:
        self.queue = queue
        self._prepare = prepare
        self._content = f"message::text, {'headers' if has_headers else 'NULL'}::text"
        self._name = f'pgmq."q_{queue}"'
        self._these = "msg_id = ANY($1::int8[]) AND read_ct = $2::int4"
        self._held = f"{self._these} AND last_read_at IS NOT NULL" if has_last_read else self._these
        self._read = "last_read_at IS NOT NULL" if has_last_read else "read_ct > 0"
        self._forget_read = ", last_read_at = NULL" if has_last_read else ""

    @cached_property
    def remove(self) -> Quick:
        return self._prepare(f"DELETE FROM {self._name} WHERE {self._held} RETURNING msg_id")

    @cached_property
    def remove_unread(self) -> Quick:
        """Of dead letters, which are looked at and not read."""
        return self._prepare(f"DELETE FROM {self._name} WHERE {self._these} RETURNING msg_id")

    @cached_property
    def bury(self) -> Quick:
        return self._prepare(f"DELETE FROM {self._name} WHERE {self._held} RETURNING msg_id, read_ct, {self._content}")

    @cached_property
    def give_back(self) -> Quick:
        """Those who wait are told: what they found to be due next may be later than this."""
        return self._prepare(
            f"WITH done AS (UPDATE {self._name} SET vt = clock_timestamp() + make_interval(secs => $3::float8)"
            f"{self._forget_read} WHERE {self._held} RETURNING msg_id) "
            f"SELECT msg_id, pg_notify('{channel_of(self.queue)}', '')::text FROM done"
        )

    @cached_property
    def hold(self) -> Quick:
        return self._prepare(
            f"UPDATE {self._name} SET vt = clock_timestamp() + make_interval(secs => $3::float8) "
            f"WHERE {self._held} RETURNING msg_id, date_part('epoch', vt)"
        )

    @cached_property
    def due(self) -> Quick:
        """In how many seconds the next message can be read."""
        return self._prepare(f"SELECT date_part('epoch', min(vt) - clock_timestamp()) FROM {self._name}")

    @cached_property
    def counts(self) -> Quick:
        later = "vt > statement_timestamp()"
        return self._prepare(
            f"SELECT count(*) FILTER (WHERE NOT {later}), count(*) FILTER (WHERE {later} AND {self._read}), "
            f"count(*) FILTER (WHERE {later} AND NOT {self._read}) FROM {self._name}"
        )

    @cached_property
    def first(self) -> Quick:
        """The oldest messages, which stay as they are."""
        return self._prepare(
            f"SELECT msg_id, read_ct, date_part('epoch', enqueued_at), {self._content} "
            f"FROM {self._name} ORDER BY msg_id LIMIT $1::int8"
        )


class These(NamedTuple):
    """Messages of one table that were read as often."""

    msg_ids: list[int]
    reads: int

    @property
    def values(self) -> tuple[bytes, bytes]:
        """What the statements begin with."""
        return array("int8", self.msg_ids), int4(self.reads)
