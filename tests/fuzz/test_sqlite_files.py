"""A SQLite file that is damaged, or not ours: refused with the reason, or opened and its damage told by the check."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localqueue.errors import QueueStoreCorruptError, QueueStoreError, QueueStoreMissingError, QueueStoreVersionError
from localqueue.idempotency import SQLiteIdempotencyStore
from localqueue.results import SQLiteResultStore
from localqueue.retry import SQLiteAttemptStore
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.fuzz.contents import READS, WRITES, ask, make
from tests.fuzz.damage import STRANGERS, Damage, damages
from tests.fuzz.effort import examples

KEYED = [SQLiteAttemptStore, SQLiteIdempotencyStore, SQLiteResultStore]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store, to be copied."""
    path = tmp_path_factory.mktemp("sound") / "store"
    make(partial(SQLiteQueueStore, path))
    return path


def picture(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, with its bytes where it has some."""
    return {path.name: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@given(damage=damages, order=st.permutations(sorted(READS | WRITES)))
@examples(30)
def test_a_damaged_file_answers_or_refuses(sound: Path, damage: Damage, order: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(damage(sound.read_bytes()))
        try:
            with SQLiteQueueStore(path, timeout=1.0) as store:
                ask(store, order)
        except (QueueStoreCorruptError, QueueStoreVersionError) as error:
            assert str(path) in str(error)


@given(damage=damages)
@examples(30)
def test_looking_at_a_damaged_file_leaves_it_as_it_is(sound: Path, damage: Damage) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(damage(sound.read_bytes()))
        os.utime(path, (1.7e9, 1.7e9))
        before = picture(Path(folder))
        try:
            with SQLiteQueueStore(path, timeout=1.0, read_only=True) as store:
                ask(store, sorted(READS))
        except (QueueStoreCorruptError, QueueStoreVersionError, QueueStoreMissingError) as error:
            assert str(path) in str(error)
        assert picture(Path(folder)) == before


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("opening", [SQLiteQueueStore, partial(SQLiteQueueStore, read_only=True), *KEYED])
def test_what_is_not_ours_is_refused_and_left_alone(
    stranger: str, opening: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    STRANGERS[stranger](path)
    before = picture(tmp_path)
    try:
        with opening(path, timeout=1.0) as store:  # type: ignore[attr-defined]
            assert stranger in ("an empty file", "a link to nowhere")
            assert store.check().ok if isinstance(store, SQLiteQueueStore) else store.load("x") is None
    except QueueStoreError as error:
        assert str(path) in str(error)
        assert picture(tmp_path) == before
