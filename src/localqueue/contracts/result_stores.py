"""The contract of a result store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.contracts.adapters import AWKWARD_KEYS, AdapterContract
from localqueue.contracts.steps import Background
from localqueue.results.stores import ResultStore

VALUES: tuple[Any, ...] = (
    0,
    -1,
    2**70,
    1.5,
    True,
    False,
    "",
    "text \N{SNOWMAN} \x00",
    [],
    {},
    [1, [2, {"a": [None]}]],
    {"": None, "b": {"c": "d"}},
)


class ResultStoreContract(AdapterContract):
    """What every result store promises."""

    def test_an_unknown_key_has_no_result(self, store: ResultStore) -> None:
        assert store.load("a") is None

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_a_result_comes_back_equal_and_of_its_type(self, store: ResultStore, value: Any) -> None:
        store.save("a", value)
        found = store.load("a")
        assert found == value
        assert type(found) is type(value)

    def test_a_result_is_what_was_saved_last(self, store: ResultStore) -> None:
        store.save("a", {"n": 1})
        store.save("a", {"n": 2})
        assert store.load("a") == {"n": 2}

    def test_a_loaded_result_is_a_copy(self, store: ResultStore) -> None:
        saved = {"items": [1]}
        store.save("a", saved)
        saved["items"].append(2)
        store.load("a")["items"].clear()
        assert store.load("a") == {"items": [1]}

    def test_a_deleted_result_is_gone_and_deleting_twice_is_harmless(self, store: ResultStore) -> None:
        store.save("a", 1)
        store.delete("a")
        store.delete("a")
        assert store.load("a") is None

    def test_keys_are_told_apart(self, store: ResultStore) -> None:
        for n, key in enumerate(AWKWARD_KEYS):
            store.save(key, n)
        assert [store.load(key) for key in AWKWARD_KEYS] == list(range(len(AWKWARD_KEYS)))

    def test_another_opening_sees_the_same_results(self, open_store: Callable[[], Any]) -> None:
        one, two = open_store(), open_store()
        one.save("a", 1)
        assert two.load("a") == 1
        two.delete("a")
        assert one.load("a") is None

    def test_threads_share_a_store(self, store: ResultStore) -> None:
        together = threading.Barrier(4)

        def work(name: str) -> None:
            together.wait()
            for n in range(20):
                store.save(name, [name, n])
                assert store.load(name) == [name, n]

        threads = Background()
        for name in "abcd":
            threads.start(work, name)
        threads.join()
        assert [store.load(name) for name in "abcd"] == [[name, 19] for name in "abcd"]


class ListedResultStoreContract(ResultStoreContract):
    """What a store promises that has `contains`, `find` and `keys`."""

    def test_a_stored_none_is_not_a_missing_result(self, store: Any) -> None:
        assert (store.contains("a"), store.find("a")) == (False, (False, None))
        store.save("a", None)
        assert store.load("a") is None
        assert (store.contains("a"), store.find("a")) == (True, (True, None))
        assert store.keys() == ["a"]
        store.delete("a")
        assert (store.contains("a"), store.find("a")) == (False, (False, None))

    def test_keys_are_listed_in_order_and_by_prefix(self, store: Any) -> None:
        assert store.keys() == []
        for key in ("b:2", "a", "b:10", "b", "c", "b;", "B:1"):
            store.save(key, 0)
        assert store.keys() == ["B:1", "a", "b", "b:10", "b:2", "b;", "c"]
        assert store.keys("b:") == ["b:10", "b:2"]
        assert store.keys("b") == ["b", "b:10", "b:2", "b;"]
        assert store.keys("nothing") == []

    def test_awkward_keys_are_listed_too(self, store: Any) -> None:
        for key in AWKWARD_KEYS:
            store.save(key, 0)
        assert store.keys() == sorted(AWKWARD_KEYS)
        assert store.keys("k" * 599) == ["k" * 600, "k" * 599 + "l"]
        assert store.keys("a%") == ["a%"]

    def test_many_keys_are_listed_completely(self, store: Any) -> None:
        for n in range(1100):
            store.save(f"k{n:04}", n)
        assert store.keys("k") == [f"k{n:04}" for n in range(1100)]
