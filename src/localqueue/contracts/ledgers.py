"""The contract of an idempotency store."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.contracts.adapters import AWKWARD_KEYS, AdapterContract, AdapterHarness
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.idempotency.record import IdempotencyRecord, IdempotencyStore

NOW = 1_700_000_000.0


def _pending(owner: str | None, until: float | None, **metadata: Any) -> IdempotencyRecord:
    held = {"owner": owner, "until": until, **metadata}
    kept = {name: value for name, value in held.items() if value is not None}
    return IdempotencyRecord("pending", NOW, metadata=kept)


def _succeeded(completed_at: float = NOW) -> IdempotencyRecord:
    return IdempotencyRecord("succeeded", NOW - 500, completed_at, "inline", {"result": [1, None, {"a": "ü"}]})


class IdempotencyStoreContract(AdapterContract):
    """What every idempotency store promises."""

    def test_an_unknown_key_has_no_record(self, store: IdempotencyStore) -> None:
        assert store.load("a") is None

    def test_a_record_is_what_was_saved_last(self, store: IdempotencyStore) -> None:
        store.save("a", _pending("me", NOW + 30))
        assert store.load("a") == _pending("me", NOW + 30)
        store.save("a", _succeeded())
        assert store.load("a") == _succeeded()
        failed = IdempotencyRecord("failed", NOW, metadata={"last_error": {"message": "no"}})
        store.save("a", failed)
        assert store.load("a") == failed

    def test_a_loaded_record_is_a_copy(self, store: IdempotencyStore) -> None:
        saved = _succeeded()
        store.save("a", saved)
        saved.metadata["result"].append("changed")
        loaded = store.load("a")
        assert loaded is not None
        loaded.metadata.clear()
        assert store.load("a") == _succeeded()

    def test_a_deleted_record_is_gone_and_deleting_twice_is_harmless(self, store: IdempotencyStore) -> None:
        store.save("a", _succeeded())
        store.delete("a")
        store.delete("a")
        assert store.load("a") is None

    def test_keys_are_told_apart(self, store: IdempotencyStore) -> None:
        records = {key: IdempotencyRecord("pending", NOW + n) for n, key in enumerate(AWKWARD_KEYS)}
        for key, record in records.items():
            store.save(key, record)
        assert {key: store.load(key) for key in AWKWARD_KEYS} == records

    def test_pruning_takes_succeeded_records_of_that_age_and_no_others(self, store: IdempotencyStore) -> None:
        store.save("old", _succeeded(NOW - 100))
        store.save("just-old-enough", _succeeded(NOW - 60))
        store.save("young", _succeeded(NOW - 59))
        store.save("failed", dataclasses.replace(_succeeded(NOW - 100), status="failed"))
        store.save("pending", IdempotencyRecord("pending", NOW - 100))
        store.save("undated", IdempotencyRecord("succeeded", NOW - 100))
        assert store.count_completed_older_than(older_than=60, now=NOW) == 2
        assert store.load("old") is not None
        assert store.prune_completed(older_than=60, now=NOW) == 2
        assert store.prune_completed(older_than=60, now=NOW) == 0
        left = ("old", "just-old-enough", "young", "failed", "pending", "undated")
        assert [key for key in left if store.load(key)] == ["young", "failed", "pending", "undated"]

    def test_a_negative_age_is_refused(self, store: IdempotencyStore) -> None:
        store.save("a", _succeeded())
        with pytest.raises(ValueError, match="older_than cannot be negative"):
            store.prune_completed(older_than=-1, now=NOW)
        with pytest.raises(ValueError, match="older_than cannot be negative"):
            store.count_completed_older_than(older_than=-1, now=NOW)
        assert store.load("a") is not None

    def test_another_opening_sees_the_same_records(self, open_store: Callable[[], Any]) -> None:
        one, two = open_store(), open_store()
        one.save("a", _pending("me", NOW))
        assert two.load("a") == _pending("me", NOW)
        two.save("a", _succeeded())
        assert one.load("a") == _succeeded()


def _begin(store: Any, together: Any, answers: Any, owner: str, rounds: int) -> None:
    """Begin each of some keys when everybody is there; report those that were won."""
    won = []
    for n in range(rounds):
        together.wait(2 * PATIENCE)
        if store.begin(f"key-{n}", _pending(owner, NOW + 60), now=NOW) is None:
            won.append(n)
    answers.put((owner, won))


class ExclusiveIdempotencyStoreContract(IdempotencyStoreContract):
    """What a store promises that has `begin`: a key in progress elsewhere excludes."""

    def test_a_new_key_can_be_begun(self, store: Any) -> None:
        mine = _pending("me", NOW + 30, queue="jobs")
        assert store.begin("a", mine, now=NOW) is None
        assert store.load("a") == mine

    def test_a_key_that_another_owner_holds_comes_back_unchanged(self, store: Any) -> None:
        theirs = _pending("they", NOW + 30, queue="jobs")
        store.save("a", theirs)
        assert store.begin("a", _pending("me", NOW + 90), now=NOW) == theirs
        assert store.load("a") == theirs

    def test_a_hold_ends_when_its_time_is_over(self, store: Any) -> None:
        store.save("a", _pending("they", NOW + 30))
        assert store.begin("a", _pending("me", NOW + 90), now=NOW + 29.5) is not None
        assert store.begin("a", _pending("me", NOW + 90), now=NOW + 30) is None
        assert store.load("a") == _pending("me", NOW + 90)

    def test_an_owner_can_begin_again(self, store: Any) -> None:
        store.begin("a", _pending("me", NOW + 30), now=NOW)
        assert store.begin("a", _pending("me", NOW + 60), now=NOW + 1) is None
        assert store.load("a") == _pending("me", NOW + 60)

    def test_a_hold_without_an_owner_excludes_everybody(self, store: Any) -> None:
        nobodys = _pending(None, NOW + 30)
        store.save("a", nobodys)
        assert store.begin("a", _pending(None, NOW + 60), now=NOW) == nobodys
        assert store.begin("a", _pending("me", NOW + 60), now=NOW) == nobodys

    def test_a_pending_record_without_a_time_does_not_exclude(self, store: Any) -> None:
        store.save("a", _pending("they", None))
        assert store.begin("a", _pending("me", NOW + 30), now=NOW) is None

    def test_a_key_that_succeeded_stays_so_for_every_owner(self, store: Any) -> None:
        done = dataclasses.replace(_succeeded(), metadata={"owner": "me", "until": NOW - 5})
        store.save("a", done)
        for owner in ("me", "they", None):
            assert store.begin("a", _pending(owner, NOW + 30), now=NOW + 1e6) == done
        assert store.load("a") == done

    def test_a_key_that_failed_can_be_begun_again(self, store: Any) -> None:
        store.save("a", IdempotencyRecord("failed", NOW, metadata={"owner": "they", "until": NOW + 30}))
        assert store.begin("a", _pending("me", NOW + 30), now=NOW) is None

    def test_of_threads_that_begin_a_key_at_once_one_wins(self, store: Any) -> None:
        from queue import SimpleQueue

        together, answers, threads = threading.Barrier(4), SimpleQueue[Any](), Background()
        for owner in "abcd":
            threads.start(_begin, store, together, answers, owner, 10)
        threads.join()
        won = [n for _ in "abcd" for n in answers.get(timeout=PATIENCE)[1]]
        assert sorted(won) == list(range(10))


class SharedIdempotencyStoreContract(ExclusiveIdempotencyStoreContract):
    """What a store with `begin` promises that several processes open at once; needs `opener` and `location`."""

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_of_processes_that_begin_a_key_at_once_one_wins(self, harness: AdapterHarness, store: Any) -> None:
        context = harness.context()
        together, answers = context.Barrier(3), context.Queue()
        processes = [harness.in_process(_begin, together, answers, owner, 20) for owner in "abc"]
        won = dict(answers.get(timeout=3 * PATIENCE) for _ in processes)
        for process in processes:
            process.join(PATIENCE)
            assert process.exitcode == 0
        assert sorted(n for part in won.values() for n in part) == list(range(20))
        for owner, part in won.items():
            assert all(store.load(f"key-{n}") == _pending(owner, NOW + 60) for n in part)
