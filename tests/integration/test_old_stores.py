"""Stores written before the stores shared one engine are opened, show what they showed, and go on working."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts import FakeClock
from localqueue.contracts.picture import differences
from localqueue.contracts.steps import ack, drain, override, put, put_limited, state_of, take
from localqueue.errors import RecordConflict, RunCancelled, UnknownMessage
from localqueue.stores.port import Changes, LeaseRequest, Limit, NewMessage, RecordWrite, Settle
from tests.old_stores.content import ENDED, seen
from tests.old_stores.native import FILES, load
from tests.old_stores.write import PICTURE
from tests.stores import Place


@pytest.fixture(params=list(FILES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return load(request.param, tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(ENDED)


@pytest.fixture
def store(place: Place, clock: FakeClock) -> Iterator[Any]:
    with place.open(clock=clock) as store:
        yield store
        assert store.check().problems == ()


@pytest.fixture
def ids(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PICTURE.read_text(encoding="utf-8"))["ids"][place.kind]
    return found


def test_an_old_store_shows_what_it_showed(store: Any, ids: dict[str, Any]) -> None:
    expected = json.loads(PICTURE.read_text(encoding="utf-8"))["seen"]
    assert differences(expected, json.loads(json.dumps(seen(store, ids)))) == []


def test_leases_of_an_old_store_are_current(store: Any, ids: dict[str, Any]) -> None:
    assert store.ack_one("jobs", ids["leased"], 1)
    assert not store.ack_one("jobs", ids["lease ran out"], 2)
    assert store.ack_one("jobs", ids["lease ran out"], 3)
    assert take(store, leased_by="w1", queue="jobs").id == ids["released"]
    assert store.lease(LeaseRequest("jobs", leased_by="w3")) == []  # paused there
    assert store.lease(LeaseRequest("paused")) == []
    store.resume("paused")
    assert take(store, "paused").id == ids["held back"]


def test_payloads_of_an_old_store_are_delivered_as_they_were_put(store: Any) -> None:
    assert store.ack_one("plain", store.scan("plain", state="inflight")[0].id, 1)
    assert drain(store, "plain") == [b"\x00\xff\x80", b"\x80\x04K\x01.", '"put one"', '"a"', '"b"']


def test_an_ordering_key_of_an_old_store_is_freed(store: Any, ids: dict[str, Any], clock: FakeClock) -> None:
    assert store.lease(LeaseRequest("keyed")) == []
    assert store.ack_one("keyed", ids["k0"], 1)
    assert drain(store, "keyed") == ['"1"', '"2"', '"3"']
    clock.advance(40_000)
    assert ack(store, take(store, "keyed"))
    assert take(store, "keyed").id == ids["behind l"]


def test_a_dependency_of_an_old_store_is_freed(store: Any, ids: dict[str, Any]) -> None:
    assert override(store, ids["b"], "ack", "flow")
    assert state_of(store, ids["d"], "flow") == "waiting"
    assert override(store, ids["c"], "ack", "jobs")
    assert take(store, "flow").id == ids["d"]
    assert store.ack_one("flow", ids["d"], 1)
    assert store.requeue("flow", [ids["dead upstream"]]) == 1
    assert override(store, ids["dead upstream"], "ack", "flow")
    assert take(store, "flow").id == ids["stalled"]
    assert store.ack_one("flow", ids["stalled"], 1)
    assert take(store, "flow").id == ids["e"]
    assert override(store, ids["e"], "ack", "flow")
    run = store.run("run-1")
    assert (run.total, run.done, run.inflight) == (6, 5, 1)


def test_an_old_store_knows_which_messages_were_acked_and_which_are_gone(store: Any, ids: dict[str, Any]) -> None:
    assert state_of(store, put(store, after=(ids["acked"],))) == "ready"
    assert state_of(store, put(store, after=(ids["forgotten"],))) == "ready"
    for name in ("pruned upstream", "purged upstream", "dropped later"):
        with pytest.raises(UnknownMessage):
            put(store, after=(ids[name],))
    with pytest.raises(RunCancelled):
        put(store, run_id="cancelled-run")


def test_a_dedupe_key_of_an_old_store_is_held_until_its_message_ends(store: Any, ids: dict[str, Any]) -> None:
    def outcome(queue: str, key: str) -> tuple[str, str | None]:
        done = store.commit(Changes(enqueue=[NewMessage(store.mint()[0], queue, "x", dedupe_key=key)])).enqueued[0]
        return done.outcome, None if done.existing is None else done.existing.id

    assert outcome("jobs", "the key \x00 é") == ("duplicate", ids["deduped"])
    assert outcome("ended", "gone") == ("stored", None)
    assert outcome("timed", "free soon") == ("stored", None)


def test_dead_messages_of_an_old_store_are_requeued_and_pruned(store: Any, ids: dict[str, Any]) -> None:
    assert store.requeue("ended", [ids["tried to death"], ids["expires inflight"]]) == 2
    first = take(store, "ended")
    assert (first.id, first.attempts, first.forgiven, len(first.history)) == (ids["tried to death"], 4, 3, 8)
    assert state_of(store, ids["expires inflight"], "ended") == "blocked"
    assert store.requeue("ended") == 2
    assert store.prune("ended", state="expired", older_than=10.0) == 1
    assert store.prune("ended", state="cancelled", older_than=10.0) == 1


def test_what_fell_due_in_an_old_store_is_settled(store: Any, ids: dict[str, Any]) -> None:
    found = store.lease(LeaseRequest("timed", 10, max_attempts=5))
    assert {message.id for message in found} == {
        ids[name] for name in ("lease ends", "ready", "delay ends", "blocked until then")
    }
    assert {message.id for message in store.scan("timed", state="expired")} == {
        ids["life ends"],
        ids["delay and life end"],
    }
    took = {message.id: message.attempts for message in found}
    assert took[ids["lease ends"]] == 2


def test_what_is_beside_the_messages_of_an_old_store_goes_on(store: Any, ids: dict[str, Any]) -> None:
    with pytest.raises(RecordConflict):
        store.commit(Changes(records=[RecordWrite("ledger", "one", b"3", expect=0)]))
    store.commit(Changes(records=[RecordWrite("ledger", "one", b"3", expect=ids["ledger one"])]))
    assert store.record("ledger", "one").value == b"3"
    version = store.subscriptions("news").version
    assert store.subscribe("news", "gone")
    assert store.subscriptions("news") == (version + 1, ("mail", "chat", "gone"))
    assert put_limited(store, Limit(2, "drop-oldest"), "small").outcome == "stored"
    assert store.stats("small").dropped == 3
    store.heartbeat("jobs", "w1", leases=1)
    assert store.stats("jobs").leases_by_worker_id["w1"] == 8


def test_the_journal_of_an_old_store_goes_on(store: Any, ids: dict[str, Any]) -> None:
    first, last = store.journal_span()
    store.commit(Changes(settle=[Settle("plain", ids["text"], "ack")]))
    new = put(store, priority=3)
    assert store.journal_span() == (first, last + 2)
    entries = store.events(after=last)
    assert [(entry.seq, entry.type, entry.message_id) for entry in entries] == [
        (last + 1, "acked", ids["text"]),
        (last + 2, "enqueued", new),
    ]
