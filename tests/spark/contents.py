"""A namespace with a message in every state and with every option, and reading it without a Spark session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from localqueue.spark.columns import arrow_schema
from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, QueueStore, Settle, StoredMessage

ERROR = {"type": "ValueError", "module": "builtins", "message": "no"}


def fill(store: QueueStore) -> list[str]:
    """Messages of two queues; the ids of those with options."""
    store.enable_journal()
    store.put_batch("jobs", [f'{{"n":{n}}}' for n in range(5)], None)
    ids = store.mint(9)
    expired = StoredMessage(ids[8], "jobs", "expired", '{"n":18}', None, 0, 1, 1000.5, 1000.5, expires_at=1001.0)
    store.commit(
        Changes(
            enqueue=[
                NewMessage(
                    ids[0], "jobs", '{"n":10,"s":"é"}', priority=7, dedupe_key="dé", headers='{"h":"1","x":"y"}'
                ),
                NewMessage(ids[1], "jobs", '{"n":11}', delay=1000.0),
                NewMessage(ids[2], "jobs", '{"n":12}', ordering_key="o"),
                NewMessage(ids[3], "jobs", '{"n":13}', ordering_key="o"),
                NewMessage(ids[4], "jobs", b"\x81\xa1n\x0e", codec="msgpack", run_id="run-1"),
                NewMessage(ids[5], "jobs", b"\x80\x05", codec="pickle", ttl=500.0),
                NewMessage(ids[6], "jobs", '{"n":16}', after=(ids[1],)),
                NewMessage(ids[7], "jobs", '{"n":17}', run_id="run-2"),
                NewMessage(ids[8], "jobs", '{"n":18}', past=expired),
            ]
        )
    )
    first, second, _ = store.lease(LeaseRequest("jobs", limit=3, leased_by="w1", timeout=1000))
    bad = {"type": None, "module": None, "message": "bad"}
    store.commit(
        Changes(
            settle=[
                Settle("jobs", first.id, "release", first.attempts, error=ERROR),
                Settle("jobs", second.id, "dead-letter", second.attempts, error=bad),
            ]
        )
    )
    store.cancel_run("run-2")
    store.put_batch("other", [f'{{"o":{n}}}' for n in range(4)], None)
    store.lease(LeaseRequest("other", limit=1, consume=True))
    return ids


def options_of(place: Any, **options: str) -> dict[str, str]:
    """The options of the data source for a place of `tests.stores`."""
    local = {"sqlite": "sqlite:///", "lmdb": "lmdb:///"}
    return {"url": f"{local.get(place.kind, '')}{place.location}", "namespace": place.namespace, **options}


def read(
    options: dict[str, str], schema: StructType | None = None, filters: Iterable[Filter] = ()
) -> tuple[pa.Table, list[Filter]]:
    """What the tasks of a read give, and the filters that are left to Spark."""
    source = LocalQueueDataSource(options)
    schema = source.schema() if schema is None else schema
    reader = source.reader(schema)
    rest = list(reader.take(list(filters)))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, arrow_schema(schema)), rest


def rows(options: dict[str, str], schema: StructType | None = None, filters: Iterable[Filter] = ()) -> list[Any]:
    """The rows, sorted: a database hands them out in any order."""
    found: list[Any] = read(options, schema, filters)[0].to_pylist()
    return in_order(found)


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.get("seq") or 0, row.get("id") or "", repr(row)))
