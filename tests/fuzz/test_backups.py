"""A backup that is damaged or not one, as the source of a copy: refused with the reason, and the target stays sound."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.errors import QueueError
from localqueue.queue_copy import copy_queue
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.fuzz.commands import call, everything, in_order
from tests.fuzz.contents import QUEUE, make
from tests.fuzz.damage import STRANGERS, Damage, damages
from tests.fuzz.effort import examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    make(partial(SQLiteQueueStore, folder / "store"))
    with SQLiteQueueStore(folder / "store") as store:
        store.backup(folder / "copy")
    return folder / "copy"


@given(damage=damages)
@examples(12)
def test_what_was_copied_of_a_damaged_backup_is_sound(backup: Path, damage: Damage) -> None:
    with TemporaryDirectory() as folder, MemoryQueueStore() as store:
        path = Path(folder, "backup")
        path.write_bytes(damage(backup.read_bytes()))
        target = PersistentQueue[Any](QUEUE, store=store)
        try:
            with SQLiteQueueStore(path, timeout=1.0) as source:
                copy_queue(PersistentQueue[Any](QUEUE, store=source), target)
        except (QueueError, ValueError) as error:
            assert str(error)
        assert store.check().ok
        target.messages()


@given(damage=damages, line=st.sampled_from([["queue", "check"], ["queue", "events"], ["queue", "copy", QUEUE]]))
@examples(12)
def test_commands_say_that_a_backup_is_damaged(home: Path, backup: Path, damage: Damage, line: list[str]) -> None:
    Path("backup").write_bytes(damage(backup.read_bytes()))
    Path("target").unlink(missing_ok=True)
    to = ["--to", "sqlite:///target"] if "copy" in line else []
    in_order(call([*line, *to, "--store-path", "backup"]))


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_copy_of_what_is_no_backup_makes_no_target(home: Path, stranger: str) -> None:
    STRANGERS[stranger](Path("backup"))
    before = everything(home)
    ran = call(["queue", "copy", QUEUE, "--to", "sqlite:///target", "--store-path", "backup"])
    in_order(ran)
    assert ran.code == 1 and "backup" in ran.err
    assert everything(home) == before
