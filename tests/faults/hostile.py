"""Texts that mean something to one of the languages a store speaks, and what a store does with a text in each of the
positions where its port takes one.

A position stores the text, reads it back and compares. What it raises by itself is the store's refusal. All texts of a
test go through the same store, so that two of them that a store took for one another would show.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import UnknownMessage
from localqueue.stores.kept_error import kept
from localqueue.stores.port import Changes, Edge, Lease, LeaseRequest, Limit, NewMessage, RecordWrite, Settle

TEXTS: tuple[str, ...] = (
    *("'", '"', "`", "\\", "'; DROP TABLE messages; --", "' OR '1'='1", "x'00'", "E'\\x00'", "/* */", "--"),
    *("%", "%s", "%(x)s", "%%", ":x", ":1", "?", "?1", "$1", "@x", "_", "a_c", "abc", "{}", "{0}", "{x}", "}{", "{a}b"),
    *("$", "$where", "$set", "$ne", "$expr", "$$ROOT", "$a.b", "a.b", "a.b.c", ".", "..", "../..", "_id", "a.$.b"),
    *("*", "[a-z]*", "[", "(", "^a", "\r\n", "a\r\nb", "\n", "\t", " ", " x", "x ", "x", "X", "redis.call('FLUSHALL')"),
    *("KEYS[1]", "\x00", "a\x00", "a\x00b", "\x01", "\x1f", "\x7f", "\xff", "\uffff", "\U0010ffff", "\ufeff"),
    *("\u202eRTL", "\u0627\u0644", "\U0001f986" * 50, "\u00e9", "e\u0301", "\u00df", "SS", "ss", "\u4e2d" * 3000),
    *("0", "00", "1", "-1", "1e3", "null", "None", "true", "NaN", "default", ":", "a:b", "a:", "#", "/", "a/b", ","),
    *("x" * 255, "x" * 256, "x" * 511, "x" * 512, "x" * 2_000, "x" * 9_999, "x" * 10_000, "\ud800"),
)


#: What has hurt the most often, in each of the languages.
WORST = (
    *(
        "'",
        "'; DROP TABLE messages; --",
        "%s",
        ":x",
        "$1",
        "{x}",
        "$where",
        "$a.b",
        "..",
        "*",
        "\r\n",
        "\x00",
        "a\x00b",
    ),
    *("\u202eRTL", "\U0001f986" * 50, "e\u0301", "x" * 512, "x" * 10_000, "\ud800"),
)


def some_texts(turn: int) -> tuple[str, ...]:
    """The worst, and a part of the others: each of them has its turn in some positions."""
    return tuple(text for n, text in enumerate(TEXTS) if text in WORST or n % 10 == turn % 10)


def may_be_refused(text: str) -> bool:
    """Characters that a server's text can not hold, and texts beyond any name."""
    return "\x00" in text or "\ud800" in text or len(text) > 500


Position = Callable[[Any, str], None]

POSITIONS: dict[str, Position] = {}


def position(check: Position) -> Position:
    POSITIONS[check.__name__.replace("_", " ")] = check
    return check


def put(store: Any, queue: str, payload: str = "x", **options: Any) -> str:
    (message_id,) = store.mint()
    (done,) = store.commit(Changes(enqueue=[NewMessage(message_id, queue, payload, **options)])).enqueued
    assert done.outcome == "stored", done
    return str(message_id)


def raw(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def only(store: Any, queue: str, **options: Any) -> Any:
    """Lease the one message that the queue has."""
    (message,) = store.lease(LeaseRequest(queue, 2, **options))
    return message


@position
def queue(store: Any, text: str) -> None:
    first, _ = store.put_one(text, "first", None)
    assert text in store.queues()
    assert [message.queue for message in store.scan(text)] == [text]
    (second, third), _ = store.put_batch(text, ["second", "third"], None)
    fourth = put(store, text, "fourth", priority=1)
    assert (store.qsize(text), store.load(text), store.stats(text).ready) == (4, 4, 4)
    leased = store.lease(LeaseRequest(text, 9, 60.0))
    assert [(message.id, message.queue) for message in leased] == [(i, text) for i in (fourth, first, second, third)]
    assert store.renew([Lease(text, first, 1)], timeout=90.0) != [None]
    assert store.ack_one(text, first, 1)
    errors = [Settle(text, second, "dead-letter", 1), Settle(text, third, "release", 1, 60.0)]
    assert store.commit(Changes(settle=[*errors, Settle(text, fourth, "cancel", 1)])).settled == [True] * 3
    assert store.requeue(text, [fourth]) == 1
    assert store.prune(text, state="dead", older_than=0) == 1
    assert {message.payload: message.state for message in store.scan(text)} == {"third": "delayed", "fourth": "ready"}
    store.heartbeat(text, "w")
    store.pause(text)
    assert store.paused(text) and store.lease(LeaseRequest(text)) == []
    store.resume(text)
    assert not store.paused(text)
    with store.listen([text]) as waiter:
        assert waiter.wait(0)
    with store.listen_capacity({text: 2}) as waiter:
        assert waiter.wait(0)
    assert store.purge(text) == 2
    put(store, text, text)


@position
def overflow_queue(store: Any, text: str) -> None:
    if not store.qsize("full"):
        put(store, "full")
    (message_id,) = store.mint()
    limit = Limit(1, "overflow-queue", f"over {text}")
    done = store.commit(Changes(enqueue=[NewMessage(message_id, "full", text)], limits={"full": limit}))
    assert done.enqueued[0].outcome == "diverted"
    assert [message.payload for message in store.scan(f"over {text}")] == [text]


@position
def dedupe_key(store: Any, text: str) -> None:
    first = put(store, "deduped", dedupe_key=text)
    (again,) = store.mint()
    (done,) = store.commit(Changes(enqueue=[NewMessage(again, "deduped", "x", dedupe_key=text)])).enqueued
    assert (done.outcome, done.existing.id, done.existing.dedupe_key) == ("duplicate", first, text)
    store.commit(Changes(records=[RecordWrite("ledger", f"deduped:{text}", raw(text))]))
    (message,) = store.lease(LeaseRequest("deduped", ledger="ledger"))
    assert (message.dedupe_key, message.record.key, message.record.value) == (text, f"deduped:{text}", raw(text))


@position
def ordering_key(store: Any, text: str) -> None:
    first, second = put(store, "ordered", "1", ordering_key=text), put(store, "ordered", "2", ordering_key=text)
    assert [store.get("ordered", one).state for one in (first, second)] == ["ready", "blocked"]
    (message,) = store.lease(LeaseRequest("ordered"))
    assert (message.id, message.ordering_key) == (first, text)
    assert store.ack_one("ordered", first, 1)
    (message,) = store.lease(LeaseRequest("ordered"))
    assert message.id == second  # stays leased, and so holds its key


@position
def run_id(store: Any, text: str) -> None:
    first = put(store, "runs", run_id=text)
    put(store, "runs", run_id=text, after=(first,))
    assert store.run(text).total == 2
    assert [message.run_id for message in store.run_messages(text)] == [text] * 2
    with store.listen_run(text) as waiter:
        waiter.wait(0)
    assert store.cancel_run(text) == 2
    assert store.purge("runs") == 2


@position
def worker_id(store: Any, text: str) -> None:
    put(store, "work")
    message = only(store, "work", leased_by=text)
    assert message.leased_by == text
    assert store.get("work", message.id).leased_by == text
    store.heartbeat("work", text, leases=2)
    assert text in store.stats("work").last_seen_by_worker_id
    assert store.commit(Changes(settle=[Settle("work", message.id, "release", 1)])).settled == [True]
    store.pause("work", worker=text)
    assert store.paused("work", worker=text) and not store.paused("work")
    assert store.lease(LeaseRequest("work", leased_by=text)) == []
    message = only(store, "work", leased_by="another")
    assert message.history[0]["leased_by"] == text
    store.resume("work", worker=text)
    assert not store.paused("work", worker=text)
    assert store.ack_one("work", message.id, 2)


@position
def record_kind(store: Any, text: str) -> None:
    store.commit(Changes(records=[RecordWrite(text, "key", b"1", 0)]))
    assert store.record(text, "key").kind == text
    assert [(record.kind, record.value) for record in store.records(text)] == [(text, b"1")]
    put(store, "kinds", dedupe_key="k")
    store.commit(Changes(records=[RecordWrite(text, "kinds:k", b"2", 0)]))
    message = only(store, "kinds", ledger=text)
    assert (message.record.kind, message.record.value) == (text, b"2")
    assert store.ack_one("kinds", message.id, 1)
    store.commit(Changes(records=[RecordWrite(text, "key", None, store.record(text, "key").version)]))
    assert store.record(text, "key") is None


@position
def record_key(store: Any, text: str) -> None:
    value = raw(text)
    store.commit(Changes(records=[RecordWrite("keys", text, value, 0)]))
    assert store.record("keys", text)[:3] == ("keys", text, value)
    with store.listen_records("keys", [text]) as waiter:
        store.commit(Changes(records=[RecordWrite("keys", text, value, tell=True)]))
        assert waiter.wait(PATIENCE)
    assert text in [record.key for record in store.records("keys")]
    assert text not in [record.key for record in store.records("keys", after=text)]


@position
def topic(store: Any, text: str) -> None:
    assert store.subscriptions(text).subscribers == ()
    assert store.subscribe(text, "subscriber")
    version, subscribers = store.subscriptions(text)
    assert subscribers == ("subscriber",)
    (message_id,) = store.mint()
    store.commit(Changes(enqueue=[NewMessage(message_id, "topics", "x")], topics={text: version}))


@position
def subscriber(store: Any, text: str) -> None:
    assert store.subscribe("news", text)
    assert not store.subscribe("news", text)
    assert text in store.subscriptions("news").subscribers
    assert store.unsubscribe("news", text)
    assert text not in store.subscriptions("news").subscribers
    assert store.subscribe("news", text)


@position
def codec(store: Any, text: str) -> None:
    message_id, _ = store.put_one("codecs", "x", text)
    assert store.get("codecs", message_id).codec == text
    message = only(store, "codecs")
    assert (message.codec, store.ack_one("codecs", message.id, 1)) == (text, True)


@position
def headers(store: Any, text: str) -> None:
    value = json.dumps({text: text, "nested": {text: [text]}})
    put(store, "headed", headers=value)
    message = only(store, "headed")
    assert (message.headers, store.ack_one("headed", message.id, 1)) == (value, True)


@position
def payload(store: Any, text: str) -> None:
    store.put_one("payloads", text, None)
    store.put_batch("payloads", [text], None)
    assert [message.payload for message in store.lease(LeaseRequest("payloads", 3))] == [text, text]
    store.purge("payloads")


@position
def error(store: Any, text: str) -> None:
    problem = {"type": text, "message": text, text: {text: [text, None, 1, True]}}
    message_id = put(store, "failing")
    message = only(store, "failing")
    release = Settle("failing", message_id, "release", message.attempts, error=problem)
    assert store.commit(Changes(settle=[release])).settled == [True]
    message = only(store, "failing")
    expected = kept(problem)  # the whole of it, unless it is longer than an error may be
    assert (message.last_error, message.history[1]["last_error"]) == (expected, expected)
    dead = Settle("failing", message_id, "dead-letter", message.attempts, error=problem)
    assert store.commit(Changes(settle=[dead])).settled == [True]
    assert store.scan("failing", state="dead")[-1].last_error == expected


@position
def message_id(store: Any, text: str) -> None:
    """Nothing has such an id: it is looked for in vain, and nothing happens to anything else."""
    waiting = put(store, "ids", after=(put(store, "ids"),))
    assert store.get("ids", text) is None
    assert store.ack_one("ids", text, 1) is False
    assert store.renew([Lease("ids", text, 1)], timeout=9.0) == [None]
    assert store.upstream("ids", text) == []
    assert store.requeue("ids", [text]) == 0
    settles = [Settle("ids", text, action) for action in ("ack", "release", "dead-letter", "cancel")]  # type: ignore[arg-type]
    assert store.commit(Changes(settle=settles, strict=False)).settled == [False] * 4
    (new,) = store.mint()
    for changes in (
        Changes(enqueue=[NewMessage(new, "ids", "x", after=(text,))]),
        Changes(edges=[Edge(text, waiting)]),
    ):
        try:
            store.commit(changes)
        except UnknownMessage:
            continue
        raise AssertionError("an unknown message can not be waited for")
    assert store.purge("ids") == 2
