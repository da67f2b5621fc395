"""Dead letters by the shape of their error; replaying, moving and discarding them, with an audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.errors import RecordConflict
from localqueue.spark.jobs import triage_audit
from localqueue.spark.jobs.triage import Triage, triage
from localqueue.spark.jobs.triage_actions import carry_out
from localqueue.stores.url import open_store
from tests.stores import SERVERS, SHARED, Place, new_place

LOST = "TimeoutError: no answer from <text> after <n> s"
BAD = "ValueError: bad row <n>"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def bury(store: Any, errors: Sequence[Exception | None], **options: Any) -> list[str]:
    """Dead letters of queue `jobs`, one for each error, with their place as the value."""
    with PersistentQueue[Any]("jobs", store=store) as queue:
        for n, error in enumerate(errors):
            queue.put({"n": n}, **{name: f"{value}-{n}" for name, value in options.items()})
            queue.dead_letter(queue.get_message(), error=error)
        return [message.id for message in queue.dead_letters()]


def mixed(url: str) -> list[str]:
    lost = [TimeoutError(f"no answer from 'db-{n}' after {n}.5 s") for n in range(3)]
    with closing(open_store(url)) as store:
        return bury(store, [*lost, *(ValueError(f"bad row {n}") for n in range(2)), None])


def by_hand(url: str) -> Triage:
    """What needs no session."""
    return triage(None, url=url, queue="jobs")


def states(url: str, queue: str = "jobs") -> dict[str, int]:
    with closing(open_store(url)) as store:
        stats = store.stats(queue)
        return {name: count for name in ("ready", "delayed", "dead") if (count := getattr(stats, name))}


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_groups_count_shapes_and_a_replay_takes_exactly_those_of_one(spark: Any, url: str) -> None:
    ids = mixed(url)
    found = triage(spark, url=url, queue="jobs")
    rows = found.groups().collect()
    assert [(row["shape"], row["count"]) for row in rows] == [(LOST, 3), (BAD, 2), ("(no error recorded)", 1)]
    assert [sample["id"] for sample in rows[0]["samples"]] == [ids[0], ids[2]]
    assert rows[0]["samples"][1]["value"] == '{"n":2}' and rows[0]["first_at"] <= rows[0]["last_at"]
    assert [row["id"] for row in found.sample(BAD, 1).collect()] == [ids[4]]

    counted = found.replay(shape=LOST, where="value like '%1%' or value like '%2%'", dry_run=True)
    assert (counted.selected, counted.done, counted.state) == (2, 0, "dry run")
    assert states(url) == {"dead": 6} and found.audit() == []

    done = found.replay(shape=LOST, by="operator")
    assert (done.selected, done.done, done.gone, done.state) == (3, 3, 0, "done")
    assert states(url) == {"ready": 3, "dead": 3}
    assert found.discard(where="last_error is null").done == 1
    assert states(url) == {"ready": 3, "dead": 2}
    latest, first = found.audit()
    assert (first.action, first.by, first.chosen_by) == ("replay", "operator", {"shape": LOST})
    assert (latest.action, latest.chosen_by) == ("discard", {"where": "last_error is null"})
    assert found.audit_ids(first.id) == ids[:3]


def test_a_replayed_message_has_a_fresh_attempt_budget_and_may_be_delayed(url: str) -> None:
    ids = mixed(url)
    entry = by_hand(url).replay(ids=[ids[1], "unknown", ids[1]], delay=60.0)
    assert (entry.selected, entry.done, entry.chosen_by) == (1, 1, {"ids": 3})
    assert states(url) == {"delayed": 1, "dead": 5}
    with closing(open_store(url)) as store:
        message = store.get("jobs", ids[1])
        assert message is not None and message.attempts - message.forgiven == 0


def test_a_live_message_with_the_same_dedupe_key_keeps_a_dead_one_dead(url: str) -> None:
    with closing(open_store(url)) as store:
        ids = bury(store, [ValueError(str(n)) for n in range(5)], dedupe_key="key")
        with PersistentQueue[Any]("jobs", store=store) as queue:
            queue.put("again", dedupe_key="key-3")
    entry = by_hand(url).replay(ids=ids)
    assert (entry.done, entry.in_use, entry.gone, entry.state) == (4, 1, 0, "done")
    assert states(url) == {"ready": 5, "dead": 1}


def test_what_somebody_else_has_returned_meanwhile_is_not_discarded(url: str) -> None:
    ids = mixed(url)
    with closing(open_store(url)) as store:
        at = store.now()
        entry = triage_audit.AuditEntry(
            id=triage_audit.new_id(at), action="discard", queue="jobs", by="me", at=at, chosen_by={}, selected=2
        )
        begun = triage_audit.begin(store, entry, ids[:2])
        store.requeue("jobs", [ids[0]])
        done = carry_out(store, begun, None)
    assert (done.done, done.gone) == (1, 1)
    assert states(url) == {"ready": 1, "dead": 4}


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[pytest.mark.server] if one in SERVERS else []) for one in SHARED]
)
def test_dead_letters_move_into_another_queue_of_any_store(kind: str, tmp_path: Path) -> None:
    place: Place = new_place(kind, tmp_path)
    url = f"{kind}:///{place.location}" if kind in ("sqlite", "lmdb") else place.location
    with closing(place.open()) as store:
        with PersistentQueue[Any]("jobs", store=store) as queue:
            queue.put({"n": 0}, headers={"from": "me"}, dedupe_key="k")
            queue.dead_letter(queue.get_message(), error=ValueError("no"))
        ids = [message.id for message in store.scan("jobs", state="dead")]
        found = triage(None, url=url, namespace=place.namespace, queue="jobs")
        entry = found.replay(ids=ids, to="jobs-repaired")
        assert (entry.done, entry.to, entry.state) == (1, "jobs-repaired", "done")
        with PersistentQueue[Any]("jobs-repaired", store=store) as queue:
            message = queue.get_message()
            assert (message.value, message.headers, message.dedupe_key) == ({"n": 0}, {"from": "me"}, "k")
            assert message.attempts == 1
            queue.dead_letter(message, error=ValueError("again"))
        assert store.stats("jobs").total == 0
        again = triage(None, url=url, namespace=place.namespace, queue="jobs-repaired")
        dead = [message.id for message in store.scan("jobs-repaired", state="dead")]
        assert again.discard(ids=dead).done == 1
        assert store.stats("jobs-repaired").total == 0
        assert [entry.action for entry in again.audit()] == ["discard"]


class PowerCut(Exception):
    pass


def cut_off(done: int, total: int) -> None:
    raise PowerCut


@pytest.mark.parametrize("action", ["replay", "discard"])
def test_what_was_cut_off_can_be_finished(url: str, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    ids = mixed(url)
    found = by_hand(url)
    monkeypatch.setattr(triage_audit, "PAGE", 2)
    with pytest.raises(PowerCut):
        getattr(found, action)(ids=ids[:5], progress=cut_off)
    (entry,) = found.audit()
    assert (entry.state, entry.done, entry.selected, entry.pages) == ("running", 2, 5, 3)
    assert states(url)["dead"] == 4
    done = found.resume(entry.id)
    assert (done.state, done.done, done.gone) == ("done", 5, 0)
    assert states(url)["dead"] == 1
    assert found.resume(entry.id) == done, "there is nothing left to do"


def test_a_message_that_died_again_is_not_replayed_twice(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = mixed(url)
    found = by_hand(url)
    real = triage_audit.AuditEntry.write

    def write(entry: triage_audit.AuditEntry) -> Any:
        if entry.pages_done:
            raise ConnectionError("the page was done and not noted")
        return real(entry)

    with monkeypatch.context() as patched:
        patched.setattr(triage_audit.AuditEntry, "write", write)
        with pytest.raises(ConnectionError):
            found.replay(ids=ids[:2])
    with closing(open_store(url)) as store, PersistentQueue[Any]("jobs", store=store) as queue:
        queue.dead_letter(queue.get_message(), error=ValueError("dead again"))
    done = found.resume(found.audit()[0].id)
    assert (done.state, done.done, done.gone) == ("done", 0, 2)
    assert states(url) == {"ready": 1, "dead": 5}


def test_two_that_finish_the_same_do_not_both_count(url: str) -> None:
    ids = mixed(url)
    with closing(open_store(url)) as store:
        at = store.now()
        entry = triage_audit.AuditEntry(
            id=triage_audit.new_id(at), action="discard", queue="jobs", by="me", at=at, chosen_by={}, selected=1
        )
        begun = triage_audit.begin(store, entry, ids[:1])
        carry_out(store, begun, None)
        with pytest.raises(RecordConflict):
            carry_out(store, begun, None)
    assert states(url)["dead"] == 5


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, ValueError, 'say which dead letters.*where="true" takes all'),
        ({"ids": ["a"], "shape": "x"}, ValueError, "either ids or a filter"),
        ({"ids": "abc"}, TypeError, "a list of message ids"),
        ({"ids": ["a"], "to": "jobs"}, ValueError, "is the queue itself"),
        ({"ids": ["a"], "delay": -1.0}, ValueError, "delay must be seconds from 0"),
        ({"shape": "x"}, ValueError, "read by Spark"),
    ],
)
def test_what_can_not_be_meant_is_refused(url: str, given: dict[str, Any], error: type[Exception], said: str) -> None:
    mixed(url)
    with pytest.raises(error, match=said):
        by_hand(url).replay(**given)
    with pytest.raises(ValueError, match="there is no audit entry"):
        by_hand(url).resume("nothing")
