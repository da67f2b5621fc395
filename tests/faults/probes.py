"""What each operation of the port does in a namespace that has nothing, while its neighbour has everything.

`fill` gives a namespace something of each kind. A probe is one operation, called in another namespace with the names
and ids of the first; it checks that the answer is that of an empty store. `picture` is all that the first one shows.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from localqueue.errors import NotWaiting, UnknownMessage
from localqueue.message import QueueStats
from localqueue.stores.port import (
    Changes,
    Edge,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    RecordWrite,
    Settle,
    Subscriptions,
)
from localqueue.stores.sqlite import SQLiteQueueStore

QUEUES = ("jobs", "held", "full")


class Known(NamedTuple):
    """Ids in the namespace that was filled, by what became of the messages."""

    ids: dict[str, str]
    folder: pathlib.Path

    def __getattr__(self, name: str) -> str:
        return self.ids[name]


def fill(store: Any, folder: pathlib.Path) -> Known:
    store.enable_journal()
    ids: dict[str, str] = {}

    def put(name: str, queue: str = "jobs", **options: Any) -> None:
        (ids[name],) = store.mint()
        store.commit(Changes(enqueue=[NewMessage(ids[name], queue, name, run_id="run", **options)]))

    put("leased", dedupe_key="d1", ordering_key="k")
    put("blocked", ordering_key="k")
    put("waiting", after=(ids["leased"],))
    put("delayed", delay=3600.0, dedupe_key="d2")
    store.lease(LeaseRequest("jobs", 1, 3600.0, "worker"))
    for name, action in (("dead", "dead-letter"), ("cancelled", "cancel")):
        put(name)
        error = {"message": "boom"}
        store.commit(Changes(settle=[Settle("jobs", ids[name], action, error=error)]))  # type: ignore[arg-type]
    put("ready", priority=-5, ttl=3600.0)
    put("held", "held")
    put("full", "full")
    store.heartbeat("jobs", "worker")
    store.pause("held")
    store.pause("jobs", worker="paused worker")
    store.subscribe("topic", "subscriber")
    store.commit(Changes(records=[RecordWrite("kind", "key", b"value"), RecordWrite("ledger", "jobs:d1", b"done")]))
    return Known(ids, folder)


def picture(store: Any) -> dict[str, Any]:
    """Everything that can be seen of a namespace that was filled."""
    messages = {queue: store.scan(queue) for queue in QUEUES}
    return {
        "queues": store.queues(),
        "messages": messages,
        "dead": store.scan("jobs", state="dead"),
        "stats": {queue: store.stats(queue) for queue in QUEUES},
        "sizes": {queue: (store.qsize(queue), store.load(queue)) for queue in QUEUES},
        "splits": {queue: store.splits(queue, 3) for queue in QUEUES},
        "upstream": {message.id: store.upstream("jobs", message.id) for message in messages["jobs"]},
        "run": (store.runs(), store.run("run"), store.run_messages("run")),
        "records": (store.records("kind"), store.records("ledger")),
        "subscriptions": store.subscriptions("topic"),
        "pauses": [store.paused("held"), store.paused("jobs"), store.paused("jobs", worker="paused worker")],
        "journal": (store.journal_enabled(), store.events()),
        "check": store.check().problems,
    }


Probe = Callable[[Any, Known], None]

PROBES: dict[str, Probe] = {}


def probe(check: Probe) -> Probe:
    PROBES[check.__name__] = check
    return check


def returns(name: str, expected: Any, *arguments: Any, **options: Any) -> None:
    """An operation whose arguments are names that both namespaces use."""

    def check(store: Any, known: Known) -> None:
        assert getattr(store, name)(*arguments, **options) == expected

    PROBES[name] = check


returns("qsize", 0, "jobs")
returns("load", 0, "jobs")
returns("stats", QueueStats(), "jobs")
returns("queues", [])
returns("splits", [], "jobs", 3)
returns("runs", [])
returns("run", None, "run")
returns("run_messages", [], "run")
returns("record", None, "kind", "key")
returns("records", [], "kind")
returns("subscriptions", Subscriptions(0, ()), "topic")
returns("journal_enabled", False)
returns("events", [])
returns("journal_span", (1, 0))
returns("prune_events", 0, older_than=0.0)
returns("unsubscribe", False, "topic", "subscriber")
returns("purge", 0, "jobs")
returns("cancel_run", 0, "run")
returns("disable_journal", None)


@probe
def namespace(store: Any, known: Known) -> None:
    assert store.namespace.split("-")[-1].startswith("theirs")


@probe
def url(store: Any, known: Known) -> None:
    assert "ours" not in store.url


@probe
def mint(store: Any, known: Known) -> None:
    assert not set(store.mint(100)) & set(known.ids.values())


@probe
def now(store: Any, known: Known) -> None:
    assert store.now() > 0


@probe
def commit(store: Any, known: Known) -> None:
    actions = ("ack", "release", "dead-letter", "cancel")
    for name in known.ids:
        for token in (None, 1):
            settles = [Settle("jobs", known.ids[name], action, token) for action in actions]  # type: ignore[arg-type]
            assert store.commit(Changes(settle=settles, strict=False)).settled == [False] * 4
    mine, other = store.mint(2)
    with pytest.raises(UnknownMessage):
        store.commit(Changes(enqueue=[NewMessage(mine, "jobs", "x", after=(known.leased,))]))
    with pytest.raises((NotWaiting, UnknownMessage)):
        store.commit(Changes(enqueue=[NewMessage(mine, "jobs", "x")], edges=[Edge(mine, known.waiting)]))
    options = {"dedupe_key": "d1", "ordering_key": "k", "run_id": "run"}
    batch = [NewMessage(mine, "jobs", "mine", **options), NewMessage(other, "full", "mine", dedupe_key="d2")]  # type: ignore[arg-type]
    done = store.commit(
        Changes(
            enqueue=batch,
            limits={"jobs": Limit(1), "full": Limit(1, "drop-oldest")},
            topics={"topic": 0},
            records=[RecordWrite("kind", "key", b"mine", 0), RecordWrite("ledger", "jobs:d1", None, 0)],
            lease=LeaseRequest("held", 9),
        )
    )
    assert [(one.outcome, one.state) for one in done.enqueued] == [("stored", "ready")] * 2
    assert done.leased == []
    (message,) = store.commit(Changes(lease=LeaseRequest("jobs", 9, ledger="ledger"))).leased
    assert (message.payload, message.record) == ("mine", None)


@probe
def lease(store: Any, known: Known) -> None:
    assert store.lease(LeaseRequest("jobs", 9)) == store.lease(LeaseRequest("jobs", 9, consume=True)) == []
    assert store.lease(LeaseRequest("held", 9, leased_by="worker")) == []


@probe
def renew(store: Any, known: Known) -> None:
    assert store.renew([Lease("jobs", known.leased, 1)], timeout=9.0) == [None]


@probe
def put_one(store: Any, known: Known) -> None:
    message_id, _ = store.put_one("jobs", "mine", None)
    assert [message.id for message in store.scan("jobs")] == [message_id]


@probe
def put_batch(store: Any, known: Known) -> None:
    ids, _ = store.put_batch("jobs", ["a", "b"], None, records=[RecordWrite("kind", "key", b"mine", 0)])
    assert [message.id for message in store.scan("jobs")] == list(ids)


@probe
def put_pages(store: Any, known: Known) -> None:
    done = store.put_pages([Page(["a", "b"], "jobs", dedupe_key=["d", "e"], ordering_key=["k", "k"])])
    assert (done.stored, done.duplicates) == (2, 0)
    assert [message.payload for message in store.scan("jobs")] == ["a", "b"]


@probe
def ack_one(store: Any, known: Known) -> None:
    assert [store.ack_one("jobs", one, 1) for one in known.ids.values()] == [False] * len(known.ids)


@probe
def get(store: Any, known: Known) -> None:
    assert [store.get("jobs", one) for one in known.ids.values()] == [None] * len(known.ids)


@probe
def scan(store: Any, known: Known) -> None:
    assert store.scan("jobs") == store.scan("jobs", state="dead") == store.scan("jobs", state="ready", limit=1) == []


@probe
def upstream(store: Any, known: Known) -> None:
    assert store.upstream("jobs", known.waiting) == []


@probe
def enable_journal(store: Any, known: Known) -> None:
    store.enable_journal(keep_events=1, keep_seconds=0.001)
    message_id, _ = store.put_one("jobs", "mine", None)
    assert {event.message_id for event in store.events()} <= {message_id}
    assert store.prune_events(older_than=0.0) <= 1


@probe
def observe(store: Any, known: Known) -> None:
    with store.observe() as seen:
        store.commit(Changes(settle=[Settle("jobs", known.ready, "dead-letter")], strict=False))
        store.cancel_run("run")
    assert seen == []


@probe
def subscribe(store: Any, known: Known) -> None:
    assert store.subscribe("topic", "subscriber")
    assert store.unsubscribe("topic", "subscriber")


@probe
def requeue(store: Any, known: Known) -> None:
    assert store.requeue("jobs", [known.dead, known.cancelled]) == store.requeue("jobs") == 0


@probe
def prune(store: Any, known: Known) -> None:
    for state in ("dead", "cancelled", "expired"):
        assert store.prune("jobs", state=state, older_than=0.0) == 0
        assert store.prune("jobs", state=state, older_than=0.0, dry_run=True) == 0


@probe
def paused(store: Any, known: Known) -> None:
    assert not store.paused("held") and not store.paused("jobs", worker="paused worker")


@probe
def pause(store: Any, known: Known) -> None:
    store.pause("jobs")
    store.pause("jobs", worker="worker")
    assert store.paused("jobs") and store.paused("jobs", worker="worker")


@probe
def resume(store: Any, known: Known) -> None:
    store.resume("held")
    store.resume("jobs", worker="paused worker")


@probe
def heartbeat(store: Any, known: Known) -> None:
    store.heartbeat("jobs", "worker", leases=7)
    assert store.stats("jobs").leases_by_worker_id == {"worker": 7}


@probe
def backup(store: Any, known: Known) -> None:
    path = known.folder / "copy of theirs"
    store.backup(str(path))
    if path.is_file():  # LMDB copies its whole environment; who may read the directory may read it all
        with SQLiteQueueStore(path, namespace=store.namespace) as copy:
            assert copy.queues() == []
        if not isinstance(store, SQLiteQueueStore):  # that one copies the file, with all that is in it
            assert b"boom" not in path.read_bytes()


@probe
def compact(store: Any, known: Known) -> None:
    store.compact()


@probe
def check(store: Any, known: Known) -> None:
    assert store.check().problems == ()


@probe
def listen(store: Any, known: Known) -> None:
    with store.listen(["jobs", "held"]) as anybody, store.listen(["jobs"], worker="worker") as worker:
        assert not anybody.wait(0) and not worker.wait(0)


@probe
def listen_capacity(store: Any, known: Known) -> None:
    with store.listen_capacity({"full": 1, "jobs": 1}) as waiter:
        assert waiter.wait(0), "the queues of this namespace are empty"


@probe
def listen_run(store: Any, known: Known) -> None:
    with store.listen_run("run") as waiter:
        waiter.wait(0)
        assert store.run("run") is None


@probe
def listen_records(store: Any, known: Known) -> None:
    with store.listen_records("kind", ["key"]) as waiter:
        assert not waiter.wait(0)
        assert store.record("kind", "key") is None


@probe
def close(store: Any, known: Known) -> None:
    store.close()
