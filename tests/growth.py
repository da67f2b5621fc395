"""Whether a store grows with what went through it: messages of every kind go through, their time of remembrance passes,
and what the store has in its tables is counted.

    python -m tests.growth sqlite 1000000

puts a million through and prints the counts and sizes after each generation; the suite does the same with thousands.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from localqueue.contracts.harness import FakeClock
from localqueue.ids import Mint
from localqueue.stores.port import Changes, LeaseRequest, Limit, NewMessage, RecordWrite, Settle
from localqueue.stores.rules import KNOWN, REMEMBERED
from tests.stores import Place, new_place

GENERATIONS = 4
_BATCH = 40
_KEPT_EVENTS = 500
_KINDS = 12  # of messages, a batch of each in a turn
A_TURN = _KINDS * _BATCH
_PASSED = max(KNOWN, REMEMBERED) + 7200.0


class Traffic:
    """Has messages go through a store in all the ways that leave something behind for a while."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.store.ids = Mint(store.ids._secret, lambda: int(clock() * 1e9))  # ids say when they were minted
        self._turn = 0
        store.enable_journal(keep_events=_KEPT_EVENTS)

    def turn(self) -> None:
        self._turn += 1
        n = f"{self._turn}-{self.clock():.0f}"
        self._consume("plain", n)
        self.store.put_batch("batch", ["x"] * _BATCH, None)
        self._drain("batch", n)
        self._consume("deduped", n, dedupe_key=True)
        self._consume("ordered", n, ordering_key=True)
        self._consume("run", n, run_id=True)
        self._joined(n)
        self._buried(n)
        self._dropped("drop-oldest", n)
        self._dropped("drop-newest", n)
        self._put("purged", n)
        assert self.store.purge("purged") == _BATCH
        self._cancelled(n)
        self._expired(n)
        writes = [RecordWrite("kind", f"{n}-{one}", b"value") for one in range(5)]
        self.store.commit(Changes(records=writes))
        self.store.commit(Changes(records=[one._replace(value=None) for one in writes]))

    def _put(self, queue: str, n: str, **named: Any) -> list[str]:
        """Messages with keys of their own for these options, or with the options as they are."""
        ids = self.store.mint(_BATCH)
        messages = [
            NewMessage(one, queue, "x", **{key: f"{n}-{i}" if value is True else value for key, value in named.items()})
            for i, one in enumerate(ids)
        ]
        done = self.store.commit(Changes(enqueue=messages)).enqueued
        return [one.id or given for one, given in zip(done, ids, strict=True)]

    def _consume(self, queue: str, n: str, **named: Any) -> None:
        self._put(queue, n, **named)
        self._drain(queue, n)

    def _drain(self, queue: str, n: str) -> None:
        """One message is released first, so that it has a history; the worker has a name that comes only once."""
        self.store.heartbeat(queue, f"worker {n}")
        released = self.store.lease(LeaseRequest(queue, 1, 30.0, f"worker {n}"))
        self._settle(released, "release")
        count = 0
        while messages := self.store.lease(LeaseRequest(queue, _BATCH, 30.0, f"worker {n}")):
            count += len(messages)
            self._settle(messages, "ack")
        assert count == _BATCH

    def _settle(self, messages: list[Any], action: Any) -> None:
        self.store.commit(Changes(settle=[Settle(one.queue, one.id, action, one.attempts) for one in messages]))

    def _joined(self, n: str) -> None:
        upstream = self._put("upstream", n)
        (join,) = self.store.mint()
        self.store.commit(Changes(enqueue=[NewMessage(join, "joined", "x", after=tuple(upstream))]))
        self._drain("upstream", n)
        self._settle(self.store.lease(LeaseRequest("joined")), "ack")
        assert self.store.load("joined") == 0

    def _buried(self, n: str) -> None:
        self._put("buried", n, dedupe_key=True, ordering_key=True)
        while messages := self.store.lease(LeaseRequest("buried", _BATCH)):
            self._settle(messages, "dead-letter")
        assert self.store.prune("buried", state="dead", older_than=-1.0) == _BATCH

    def _dropped(self, overflow: Any, n: str) -> None:
        ids = self.store.mint(_BATCH)
        messages = [NewMessage(one, overflow, "x") for one in ids]
        self.store.commit(Changes(enqueue=messages, limits={overflow: Limit(1, overflow)}))
        assert self.store.purge(overflow) == 1

    def _cancelled(self, n: str) -> None:
        self._put("cancelled", n, run_id=f"cancelled {n}")
        assert self.store.cancel_run(f"cancelled {n}") == _BATCH
        assert self.store.prune("cancelled", state="cancelled", older_than=-1.0) == _BATCH

    def _expired(self, n: str) -> None:
        self._put("expired", n, ttl=1.0)
        self.clock.advance(2.0)
        assert self.store.lease(LeaseRequest("expired")) == []
        assert self.store.prune("expired", state="expired", older_than=-1.0) == _BATCH


def generations(store: Any, clock: FakeClock, place: Place, messages: int) -> Any:
    """What the store has after each generation of messages, between which the time of remembrance passes."""
    traffic = Traffic(store, clock)
    for _ in range(GENERATIONS):
        for _ in range(max(messages // GENERATIONS // A_TURN, 1)):
            traffic.turn()
        yield census(store, place)
        clock.advance(_PASSED)


def census(store: Any, place: Place) -> Counter[str]:
    """How many rows, keys or documents there are, by the table they are in."""
    return Counter({name: count for name, count in _CENSUS[place.kind](store, place).items() if count})


def _sqlite(store: Any, place: Place) -> dict[str, int]:
    tables = [name for (name,) in store._reader.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: store._reader.rows(f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def _lmdb(store: Any, place: Place) -> dict[str, int]:
    return store._read(lambda reads: Counter(chr(key[0]) for key, _ in reads.txn.cursor()))  # type: ignore[no-any-return]


def _postgres(store: Any, place: Place) -> dict[str, int]:
    tables = [name for name, *_ in store._all(store.sql.SIZES, (store.sql.schema,))]
    return {name: store._all(f"SELECT count(*) FROM {name}", ())[0][0] for name in tables}


def _mongodb(store: Any, place: Place) -> dict[str, int]:
    database = store.server.database
    return {name: database[name].count_documents({}) for name in database.list_collection_names()}


def _redis(store: Any, place: Place) -> dict[str, int]:
    import redis

    count = {b"hash": "hlen", b"zset": "zcard", b"set": "scard", b"list": "llen", b"stream": "xlen"}
    found: Counter[str] = Counter()
    with redis.Redis.from_url(place.location) as client:
        for key in client.scan_iter(match=store._root + b"*"):
            how = count.get(client.type(key))
            part = key[len(store._root) :].decode(errors="replace").split(":")
            found[":".join(part[:2])] += getattr(client, how)(key) if how else 1
    return found


_CENSUS = {"memory": _sqlite, "sqlite": _sqlite, "lmdb": _lmdb, "postgres": _postgres, "mongodb": _mongodb}
_CENSUS["redis"] = _redis


def _size(store: Any, place: Place) -> str:
    if place.kind == "redis":
        import redis

        with redis.Redis.from_url(place.location) as client:
            return f"{client.info('memory')['used_memory'] / 1e6:.1f} MB of memory in use"
    file = Path(place.location)
    files = [file / "data.mdb"] if file.is_dir() else [file, Path(f"{file}-wal")]
    return f"{sum(one.stat().st_size for one in files if one.exists()) / 1e6:.1f} MB on disk"


def main(kind: str, messages: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place, clock = new_place(kind, Path(folder)), FakeClock(time.time())
        with place.open(clock=clock) as store:
            began = time.monotonic()
            print(f"{kind}, {messages:,} messages in {GENERATIONS} generations; at first {_size(store, place)}")
            for found in generations(store, clock, place, messages):
                print(
                    f"{time.monotonic() - began:6.0f} s  {_size(store, place)}  {found.total():,} entries", flush=True
                )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
