"""What the old stores hold: one of everything, told through the port, on a clock that only this file moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.contracts import FakeClock
from localqueue.contracts.picture import picture
from localqueue.stores.port import Changes, Edge, Lease, LeaseRequest, Limit, NewMessage, RecordWrite, Settle

NAMESPACE = "old"
BEGAN = 1_700_000_000.0
ENDED = BEGAN + 700.0

QUEUES = (
    "jobs",
    "keyed",
    "flow",
    "small",
    "spill",
    "ended",
    "news",
    "mail",
    "chat",
    "paused",
    "plain",
    "timed",
    "never used",
)
RUNS = ("run-1", "run-2", "cancelled-run", "never-used")
KINDS = ("ledger", "results", "never-used")
WORKERS = ("w1", "w2", "w3")

#: Ids of messages and versions of records.
Ids = dict[str, Any]


class Filling:
    """Fills a store, and remembers its messages by names."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.ids: Ids = {}

    def new(self, name: str, queue: str, payload: str | bytes = "{}", **options: Any) -> NewMessage:
        self.ids[name] = self.store.mint()[0]
        after = tuple(self.ids[upstream] for upstream in options.pop("after", ()))
        return NewMessage(self.ids[name], queue, payload, after=after, **options)

    def put(self, name: str, queue: str, payload: str | bytes = "{}", **options: Any) -> None:
        self.store.commit(Changes(enqueue=[self.new(name, queue, payload, **options)]))

    def put_limited(self, name: str, queue: str, limit: Limit) -> str:
        done = self.store.commit(Changes(enqueue=[self.new(name, queue)], limits={queue: limit}))
        return str(done.enqueued[0].outcome)

    def lease(self, queue: str, limit: int = 1, **options: Any) -> list[Lease]:
        found = self.store.lease(LeaseRequest(queue, limit, **options))
        return [Lease(queue, message.id, message.attempts) for message in found]

    def settle(self, lease: Lease, action: Any, **options: Any) -> None:
        assert self.store.commit(Changes(settle=[Settle(*lease[:2], action, lease.token, **options)])).settled == [True]

    def override(self, name: str, queue: str, action: Any) -> None:
        settle = Settle(queue, self.ids[name], action)
        assert self.store.commit(Changes(settle=[settle], strict=False)).settled == [True]

    def write(self, *records: RecordWrite) -> None:
        self.store.commit(Changes(records=records))
        self.note(*records)

    def note(self, *records: RecordWrite) -> None:
        """The versions of records, which are a store's own."""
        for kind, key, *_ in records:
            found = self.store.record(kind, key)
            if found is not None:
                self.ids[f"{kind} {key}"] = found.version


def fill(store: Any, clock: FakeClock) -> Ids:
    """The ids of the messages and the versions of the records by their names."""
    told = Filling(store, clock)
    _plain(told)
    store.enable_journal(keep_seconds=100_000.0, keep_events=5_000)
    _leased(told)
    _keyed(told)
    _flow(told)
    _bounded(told)
    _ended(told)
    _around(told)
    _timed(told)
    clock.advance(ENDED - clock())
    return told.ids


def _plain(told: Filling) -> None:
    """Before the journal is on, as most are: text, bytes and codecs."""
    told.put("text", "plain", '{"n": 1}')
    told.put("bytes", "plain", b"\x00\xff\x80", codec="bytes")
    told.put("pickled", "plain", b"\x80\x04K\x01.", codec="pickle")
    told.ids["one"], _ = told.store.put_one("plain", '"put one"', None)
    done = RecordWrite("ledger", "batch", b"1")
    batch, _ = told.store.put_batch("plain", ['"a"', '"b"'], None, records=[done])
    told.note(done)
    told.ids["first of a batch"], told.ids["second of a batch"] = batch
    told.put("acked", "plain")
    told.override("acked", "plain", "ack")
    told.clock.advance(10)


def _leased(told: Filling) -> None:
    for name, options in {
        "leased": {"priority": 9, "headers": '{"trace": "abc"}', "run_id": "run-1"},
        "released": {"priority": 8},
        "lease ran out": {"priority": 7},
        "urgent": {"priority": 5, "ttl": 50_000.0},
        "late": {"delay": 30_000.0, "ttl": 90_000.0},
        "deduped": {"dedupe_key": "the key \x00 é", "priority": -3},
        "unicode": {"payload": '"\u00e9\u4e16\U0001f600"', "priority": -2},
    }.items():
        told.put(name, "jobs", **options)
    first, second, third = told.lease("jobs", 3, timeout=60_000.0, leased_by="w1", max_attempts=5)
    told.clock.advance(1)
    told.settle(second, "release", error={"type": "ValueError", "module": "builtins", "message": "no"}, delay=2.0)
    told.settle(third, "release")
    (short,) = told.lease("jobs", timeout=5.0, leased_by="w2", max_attempts=5)
    told.clock.advance(10)
    (again, _) = told.lease("jobs", 2, timeout=50_000.0, leased_by="w2", max_attempts=5)
    told.settle(again, "release", forgive=True)
    assert short.id == told.ids["lease ran out"]
    told.store.renew([first], timeout=70_000.0)
    told.clock.advance(10)


def _keyed(told: Filling) -> None:
    told.store.commit(
        Changes(enqueue=[told.new(f"k{n}", "keyed", f'"{n}"', ordering_key="k", dedupe_key=f"d{n}") for n in range(4)])
    )
    told.put("head of l", "keyed", ordering_key="l", delay=40_000.0)
    told.put("behind l", "keyed", ordering_key="l", ttl=80_000.0)
    told.lease("keyed", timeout=60_000.0, leased_by="w3")
    told.clock.advance(10)


def _flow(told: Filling) -> None:
    """A diamond over two queues of which one message is done, an edge added later, and upstreams that are gone."""
    told.store.commit(
        Changes(
            enqueue=[
                told.new("a", "flow", run_id="run-1"),
                told.new("b", "flow", run_id="run-1", after=("a",)),
                told.new("c", "jobs", run_id="run-1", after=("a",), priority=-9),
                told.new("d", "flow", run_id="run-1", after=("b", "c"), ordering_key="f", ttl=70_000.0),
                told.new("e", "flow", run_id="run-1", after=("d",)),
                told.new("pruned upstream", "flow", run_id="run-2"),
                told.new("purged upstream", "small", run_id="run-2"),
                told.new("dead upstream", "flow", run_id="run-2"),
                told.new("waits for what is gone", "flow", run_id="run-2", after=("pruned upstream", "b")),
                told.new("waits for what was purged", "flow", run_id="run-2", after=("purged upstream",)),
                told.new("stalled", "flow", run_id="run-2", after=("dead upstream",)),
                told.new("of a cancelled run", "flow", run_id="cancelled-run"),
                told.new("waits in a cancelled run", "jobs", run_id="cancelled-run", after=("of a cancelled run",)),
            ]
        )
    )
    told.store.commit(Changes(edges=[Edge(told.ids["stalled"], told.ids["e"])]))
    (lease,) = told.lease("flow", timeout=100.0, leased_by="w1")
    told.settle(lease, "ack")
    told.override("pruned upstream", "flow", "dead-letter")
    told.clock.advance(1)
    assert told.store.prune("flow", state="dead", older_than=0.5) == 1
    told.override("dead upstream", "flow", "dead-letter")
    assert told.store.cancel_run("cancelled-run") == 2
    told.clock.advance(10)


def _bounded(told: Filling) -> None:
    assert told.store.purge("small") == 1
    for name in ("dropped later", "kept"):
        told.put(name, "small")
    assert told.put_limited("drops the oldest", "small", Limit(2, "drop-oldest")) == "stored"
    assert told.put_limited("dropped at once", "small", Limit(2, "drop-newest")) == "dropped"
    assert told.put_limited("diverted", "small", Limit(2, "overflow-queue", "spill")) == "diverted"
    told.clock.advance(10)


def _ended(told: Filling) -> None:
    for name in ("tried to death", "gone"):
        told.put(name, "ended", run_id="run-2", dedupe_key=name, priority=2)
    for n in range(3):
        _, gone = told.lease("ended", 2, timeout=5.0, leased_by="w2", max_attempts=3)
        error = {"type": None, "module": None, "message": "once more"}
        told.settle(gone, "dead-letter" if n == 2 else "release", error=error)
        told.clock.advance(10)
    assert told.lease("ended", max_attempts=3) == []
    told.put("expires", "ended", ttl=5.0)
    told.put("expires inflight", "ended", ttl=5.0, ordering_key="x", priority=1)
    told.put("behind the one that expires", "ended", ordering_key="x", delay=30_000.0)
    told.lease("ended", timeout=2.0, leased_by="w3")
    told.clock.advance(10)
    assert told.lease("ended") == []
    told.put("cancelled", "ended")
    told.override("cancelled", "ended", "cancel")
    for name in ("dead", "requeued", "forgotten"):
        told.put(name, "ended", headers='{"why": "test"}', delay=20_000.0)
        told.override(name, "ended", "dead-letter")
        told.clock.advance(1)
    assert told.store.requeue("ended", [told.ids["requeued"]], delay=10_000.0) == 1
    told.override("forgotten", "ended", "ack")
    told.clock.advance(10)


def _around(told: Filling) -> None:
    """What is not a message: records, subscriptions, pauses and workers."""
    store = told.store
    told.write(RecordWrite("ledger", "one", b"1"), RecordWrite("results", "r", b"\x00\x01"))
    told.write(RecordWrite("ledger", "one", b"2", told.ids["ledger one"]), RecordWrite("ledger", "two", b""))
    told.write(RecordWrite("results", "r", None), RecordWrite("results", "s \x00 é", b"s"))
    for subscriber in ("mail", "chat", "gone"):
        store.subscribe("news", subscriber)
    store.unsubscribe("news", "gone")
    version = store.subscriptions("news").version
    store.commit(Changes(enqueue=[told.new("to mail", "mail"), told.new("to chat", "chat")], topics={"news": version}))
    told.put("held back", "paused")
    store.pause("paused")
    store.pause("jobs", worker="w3")
    store.heartbeat("jobs", "w1", leases=4)
    told.lease("plain", timeout=60_000.0, leased_by="w1", counted=False)
    told.clock.advance(1)
    store.heartbeat("plain", "w1", leases=1)


def _timed(told: Filling) -> None:
    """What falls due before anybody looks again."""
    for name, options in {
        "lease ends": {"priority": 1},
        "ready": {},
        "delay ends": {"delay": 100.0},
        "life ends": {"ttl": 100.0, "dedupe_key": "free soon"},
        "delay and life end": {"delay": 100.0, "ttl": 200.0, "ordering_key": "t"},
        "blocked until then": {"ordering_key": "t"},
    }.items():
        told.put(name, "timed", **options)
    told.lease("timed", timeout=100.0, leased_by="w1", max_attempts=5)


def labels(ids: Ids) -> dict[str | int, str]:
    return {message_id: f"<{name}>" for name, message_id in ids.items()}


def seen(store: Any, ids: Ids, queues: Sequence[str] = QUEUES) -> dict[str, Any]:
    """Everything the port shows, the same for every store."""
    return {
        "names": sorted(store.queues()),
        **picture(store, labels(ids), queues=queues, runs=RUNS, kinds=KINDS, workers=WORKERS),
    }
