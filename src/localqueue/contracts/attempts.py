"""The contract of an attempt store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.contracts.adapters import AWKWARD_KEYS, AdapterContract
from localqueue.contracts.steps import Background
from localqueue.retry.record import AttemptStore, RetryRecord

NOW = 1_700_000_000.0


class AttemptStoreContract(AdapterContract):
    """What every attempt store promises."""

    def test_an_unknown_key_has_no_record(self, store: AttemptStore) -> None:
        assert store.load("a") is None

    def test_a_record_is_what_was_saved_last(self, store: AttemptStore) -> None:
        store.save("a", RetryRecord(1, NOW + 0.25, False))
        store.save("a", RetryRecord(2, NOW + 0.25, True))
        found = store.load("a")
        assert found == RetryRecord(2, NOW + 0.25, True)
        assert found.exhausted is True

    def test_a_loaded_record_is_a_copy(self, store: AttemptStore) -> None:
        saved = RetryRecord(1, NOW, False)
        store.save("a", saved)
        saved.attempts = 7
        loaded = store.load("a")
        assert loaded is not None
        loaded.exhausted = True
        assert store.load("a") == RetryRecord(1, NOW, False)

    def test_a_deleted_record_is_gone_and_deleting_twice_is_harmless(self, store: AttemptStore) -> None:
        store.save("a", RetryRecord(1, NOW, False))
        store.delete("a")
        store.delete("a")
        assert store.load("a") is None

    def test_keys_are_told_apart(self, store: AttemptStore) -> None:
        for n, key in enumerate(AWKWARD_KEYS):
            store.save(key, RetryRecord(n, NOW, False))
        assert [store.load(key) for key in AWKWARD_KEYS] == [
            RetryRecord(n, NOW, False) for n, _ in enumerate(AWKWARD_KEYS)
        ]

    def test_pruning_takes_exhausted_records_of_that_age_and_no_others(self, store: AttemptStore) -> None:
        store.save("old", RetryRecord(3, NOW - 100, True))
        store.save("just-old-enough", RetryRecord(3, NOW - 60, True))
        store.save("young", RetryRecord(3, NOW - 59, True))
        store.save("old-but-in-use", RetryRecord(1, NOW - 100, False))
        assert store.count_exhausted_older_than(older_than=60, now=NOW) == 2
        assert store.load("old") is not None
        assert store.prune_exhausted(older_than=60, now=NOW) == 2
        assert store.prune_exhausted(older_than=60, now=NOW) == 0
        left = ("old", "just-old-enough", "young", "old-but-in-use")
        assert [key for key in left if store.load(key)] == ["young", "old-but-in-use"]

    def test_a_negative_age_is_refused(self, store: AttemptStore) -> None:
        store.save("a", RetryRecord(3, NOW, True))
        with pytest.raises(ValueError, match="older_than cannot be negative"):
            store.prune_exhausted(older_than=-1, now=NOW)
        with pytest.raises(ValueError, match="older_than cannot be negative"):
            store.count_exhausted_older_than(older_than=-1, now=NOW)
        assert store.load("a") is not None

    def test_another_opening_sees_the_same_records(self, open_store: Callable[[], Any]) -> None:
        one, two = open_store(), open_store()
        one.save("a", RetryRecord(1, NOW, False))
        assert two.load("a") == RetryRecord(1, NOW, False)
        two.save("a", RetryRecord(2, NOW, True))
        assert one.load("a") == RetryRecord(2, NOW, True)

    def test_threads_share_a_store(self, store: AttemptStore) -> None:
        together = threading.Barrier(4)

        def work(name: str) -> None:
            together.wait()
            for n in range(1, 21):
                store.save(name, RetryRecord(n, NOW, False))
                assert store.load(name) == RetryRecord(n, NOW, False)
                store.save(f"{name}-gone", RetryRecord(n, NOW, True))
                store.delete(f"{name}-gone")

        threads = Background()
        for name in "abcd":
            threads.start(work, name)
        threads.join()
        assert [store.load(name) for name in "abcd"] == [RetryRecord(20, NOW, False)] * 4
        assert store.count_exhausted_older_than(older_than=0, now=NOW) == 0
