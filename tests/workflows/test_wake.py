"""Processes that have one file wake each other, however each of them names it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.notifications.ear import own_names
from localqueue.stores.url import open_store
from localqueue.workflows import Workflow
from localqueue.workflows.wake import Rest, notification_of, run_name, wake


def test_a_file_is_one_channel_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///here.db") as one, open_store(f"sqlite:///{tmp_path}/here.db") as other:
        assert notification_of(one) is notification_of(other)
    with open_store("sqlite:///there.db") as third, open_store("sqlite:///here.db", namespace="other") as fourth:
        assert len({id(notification_of(store)) for store in (one, third, fourth)}) == 3


def test_a_store_that_tells_by_itself_needs_no_channel() -> None:
    with open_store("memory://") as store:
        assert notification_of(store) is None


def test_a_process_that_has_waited_for_a_run_keeps_its_socket_for_the_next(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        names = []
        for run_id in ("one", "another"):
            with Rest(store, run_id) as rest:
                wake(store, [run_name(run_id)])
                assert rest(PATIENCE)
            names.append(own_names())
        assert names[0] and names[0] == names[1]


def test_the_workers_of_a_parent_are_told_when_the_run_of_its_child_has_ended(tmp_path: Path) -> None:
    child = Workflow("child", queue="below")
    child.step(name="only")(lambda ctx: 1)
    parent = Workflow("parent", queue="above")
    parent.child("inside", child, queue="beside")
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        parent.start(store)
        parent.worker(store, queues=["beside"]).run_until_empty()
        told, policy = threading.Event(), notification_of(store)
        policy.attach(told.set, "beside")
        try:
            parent.worker(store, queues=["below"]).run_until_empty()
            assert told.wait(PATIENCE)
        finally:
            policy.detach(told.set, "beside")
