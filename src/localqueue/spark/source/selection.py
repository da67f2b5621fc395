"""A part of a view straight from the tables of the store: one statement, and so one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

import pyarrow as pa

from localqueue.ids import Mint
from localqueue.spark.options import Options
from localqueue.spark.source.conditions import conditions, key_of
from localqueue.spark.source.connections import Connection, connected
from localqueue.spark.source.filters import Wanted
from localqueue.spark.source.finish import Names, finish, finish_events
from localqueue.spark.source.plan import Entries, EntriesLost, Messages
from localqueue.spark.source.tables import SQLITE, TABLES, Source, raw_columns

_LEASED = {"state", "attempts", "leased_until", "leased_by"}
_WORTH_COUNTING = 3  # columns; to count costs about as much as to fetch two that are NULL
_SEQ_BITS = 48  # of the id of a journal entry in SQLite; the upper ones are its namespace


def read_messages(
    options: Options, engine: str, part: Messages, wanted: Wanted, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    tables = TABLES[options.backend]
    with connected(options, engine) as connection:
        for one in part.ranges:
            _, names = _names(connection, options, one.queues)
            if not names.queues:
                continue
            low, high = 0 if one.after is None else key_of(one.after), key_of(one.until)
            where = conditions(tables, "messages", wanted, Mint(names.secret), names.queues)
            where += [f"m.key > {low}", f"m.key <= {high}"]
            raw = [name for name in raw_columns("messages", schema.names) if name in tables.messages.columns]
            raw = _used(connection, tables.messages, raw, where)
            if tables.leases is not None and _LEASED.intersection(schema.names):
                names = replace(names, leases=_leases(connection, tables.leases, names.queues, low, high))
            if len(names.queues) == 1:
                raw = [name for name in raw if name != "queue"]
            for batch in connection.batches(tables.messages.select(raw, where), raw):
                if batch.num_rows:
                    yield finish(batch, schema, names)


def read_events(
    options: Options, engine: str, part: Entries, wanted: Wanted, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    tables, raw = TABLES[options.backend], raw_columns("events", schema.names)
    with connected(options, engine) as connection:
        namespace, names = _names(connection, options, part.queues)
        if not names.queues:
            return
        number, base = ("e.id", namespace << _SEQ_BITS) if tables is SQLITE else ("e.seq", 0)
        home = [] if tables is SQLITE else [f"e.namespace = {namespace}"]
        if part.whole:
            kept = [*home, f"{number} > {base}", f"{number} <= {base + part.until}"]
            oldest = f"SELECT min({number}) FROM {tables.events.table} WHERE {' AND '.join(kept)}"
            _require(connection, oldest, base, part)
        where = home + conditions(tables, "events", wanted, Mint(names.secret), names.queues)
        where += [f"{number} > {base + part.after}", f"{number} <= {base + part.until}"]
        if options.starting_at is not None:
            where.append(f"e.at >= {options.starting_at!r}")
        if options.ending_at is not None:
            where.append(f"e.at < {options.ending_at!r}")
        for batch in connection.batches(tables.events.select(raw, where), raw):
            if batch.num_rows:
                yield finish_events(batch, schema, names)


def _used(connection: Connection, source: Source, raw: list[str], where: list[str]) -> list[str]:
    """The raw columns without those that are NULL in every row."""
    sparse = [name for name in raw if name in source.sparse]
    if len(sparse) < _WORTH_COUNTING:
        return raw
    counted = dict(zip(sparse, connection.rows(source.count(sparse, where))[0], strict=True))
    return [name for name in raw if counted.get(name) != 0]


def _leases(
    connection: Connection, leases: str, queues: Iterable[int], low: int, high: int
) -> list[tuple[int, int, float, str | None]]:
    """The leases of messages in a range, by ascending key."""
    found = [
        (key, token, until, by)
        for queue in queues
        for key, token, until, by in connection.rows(f"{leases} AND queue = {queue} AND key > {low} AND key <= {high}")
    ]
    return sorted(found, key=itemgetter(0))


def _names(connection: Connection, options: Options, wanted: Sequence[str] | None) -> tuple[int, Names]:
    """The number of the namespace, and the names of the wanted queues by theirs."""
    tables = TABLES[options.backend]
    found = connection.rows(tables.namespace(options.namespace))
    if not found:
        return 0, Names(secret=1, queues={})
    namespace, secret = found[0]
    rows = [(number, _text(name)) for number, name in connection.rows(tables.queue_names(namespace))]
    queues = {number: name for number, name in rows if wanted is None or name in wanted}
    return namespace, Names(secret=secret, queues=queues, hexed=tables is not SQLITE)


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else bytes(name).decode()


def _require(connection: Connection, oldest: str, base: int, part: Entries) -> None:
    (first,) = connection.rows(oldest)[0]
    if first is None or first - base > part.after + 1:
        raise EntriesLost.between(part.after + 1, part.until + 1 if first is None else first - base)
