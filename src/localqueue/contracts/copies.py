"""Backups: taken while the store is in use, checked, and never on top of something else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from localqueue.contracts.harness import StoreHarness
from localqueue.contracts.steps import (
    PATIENCE,
    Background,
    ack,
    assert_sound,
    dead_letter,
    drain,
    override,
    put,
    put_many,
    take,
)
from localqueue.stores.port import QueueStore


class BackupContract:
    def test_a_backup_holds_what_the_store_held(self, store: QueueStore, harness: StoreHarness, tmp_path: Path) -> None:
        first = put(store, payload="first", headers="{}", run_id="r")
        put(store, payload="second", after=(first,))
        put_many(store, "ab", ordering_key="k")
        dead_letter(store, take(store))
        store.subscribe("topic", "a")
        store.pause("other")
        store.pause("jobs", worker="w")
        target = tmp_path / "copies" / "copy"
        store.backup(str(target))
        copy = harness.open_copy(str(target))
        try:
            assert copy.scan("jobs") == store.scan("jobs")
            assert copy.run("r") == store.run("r")
            assert copy.subscriptions("topic") == store.subscriptions("topic")
            assert copy.paused("other")
            assert copy.paused("jobs", worker="w")
            assert_sound(copy)
            assert override(copy, first, "ack")
            assert drain(copy) == ["a", "b", "second"]
        finally:
            copy.close()
        assert store.get("jobs", first) is not None

    def test_a_backup_never_overwrites(self, store: QueueStore, tmp_path: Path) -> None:
        put(store)
        target = tmp_path / "copy"
        target.write_text("precious")
        with pytest.raises(FileExistsError):
            store.backup(str(target))
        assert target.read_text() == "precious"
        assert [entry.name for entry in tmp_path.iterdir() if "copy" in entry.name] == ["copy"]

    def test_a_backup_leaves_nothing_else_behind(self, store: QueueStore, tmp_path: Path) -> None:
        put(store)
        (tmp_path / "copies").mkdir()
        store.backup(str(tmp_path / "copies" / "copy"))
        assert [entry.name for entry in (tmp_path / "copies").iterdir()] == ["copy"]

    def test_a_backup_can_be_read_by_its_owner_only(self, store: QueueStore, tmp_path: Path) -> None:
        put(store, payload="secret")
        before = os.umask(0)
        try:
            store.backup(str(tmp_path / "new" / "copies" / "copy"))
        finally:
            os.umask(before)
        made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
        assert [path for path in made if path.stat().st_mode & 0o077] == []

    def test_a_backup_while_a_thread_writes_holds_everything_confirmed_before(
        self, live: QueueStore, harness: StoreHarness, tmp_path: Path
    ) -> None:
        confirmed: list[str] = []
        enough, stop = threading.Event(), threading.Event()

        def produce() -> None:
            while not stop.is_set():
                confirmed.append(put(live, payload="x" * 200))
                put(live, "acked")
                ack(live, take(live, "acked"))
                if len(confirmed) == 50:
                    enough.set()

        threads = Background()
        threads.start(produce)
        try:
            assert enough.wait(PATIENCE)
            before = list(confirmed)
            live.backup(str(tmp_path / "copy"))
        finally:
            stop.set()
            threads.join()
        copy = harness.open_copy(str(tmp_path / "copy"))
        try:
            assert set(before) <= {message.id for message in copy.scan("jobs")} <= set(confirmed)
            assert copy.check().problems == ()
            put(copy, payload="after")
            assert take(copy).id == confirmed[0]
        finally:
            copy.close()
