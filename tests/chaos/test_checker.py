"""The history checker finds every bug that was planted on purpose, by its name, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.bugs import IN_LUA, MUTATIONS
from tests.chaos.mutation import Mutation
from tests.chaos.workload import STEADY, run_in_process
from tests.stores import new_place

SEED, STEPS = "planted", 250


def opener(kind: str, folder: Path) -> Callable[..., Any]:
    place = new_place(kind, folder)
    return lambda namespace, clock: place.beside(f"{place.namespace}-{namespace}").open(clock=clock)


def kinds_found(kind: str, folder: Path, areas: Iterable[str] = STEADY) -> set[str]:
    found = run_in_process(opener(kind, folder), seed=SEED, steps=STEPS, areas=areas)
    for violation in found[:3]:
        print(violation)  # which pytest shows where it is not what was expected
    return {violation.kind for violation in found}


@pytest.mark.parametrize("kind", ["sqlite", "lmdb", "redis"])
def test_a_store_as_it_is_breaks_no_promise(kind: str, tmp_path: Path) -> None:
    assert kinds_found(kind, tmp_path) == set()


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.bug)
def test_a_bug_that_is_planted_is_found_by_its_name(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.plant(monkeypatch)
    assert mutation.kind in kinds_found(mutation.store, tmp_path, [mutation.area])


@pytest.mark.server
@pytest.mark.parametrize("mutation", IN_LUA, ids=lambda mutation: mutation.bug)
def test_a_bug_that_is_planted_in_lua_is_found_by_its_name(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.plant(monkeypatch)
    assert mutation.kind in kinds_found(mutation.store, tmp_path, [mutation.area])
