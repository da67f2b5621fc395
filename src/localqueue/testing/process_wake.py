"""Wake-ups across processes: a consumer or producer here, woken by what another process does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localqueue.stores.port import QueueStore
from localqueue.testing.harness import StoreHarness
from localqueue.testing.processes import finish
from localqueue.testing.steps import PATIENCE, ack, lease, put, put_many, take


def _put_when_told(store: QueueStore, told: Any, options: dict[str, Any]) -> None:
    assert told.wait(PATIENCE)
    put(store, **options)


def _lease_when_told(store: QueueStore, told: Any) -> None:
    assert told.wait(PATIENCE)
    assert ack(store, take(store))


def _resume_when_told(store: QueueStore, told: Any, worker: str | None) -> None:
    assert told.wait(PATIENCE)
    store.resume("jobs", worker=worker)


def _hold_until_killed(store: QueueStore, holding: Any) -> None:
    take(store, timeout=0.5)
    holding.set()
    threading.Event().wait(PATIENCE * 2)


class ProcessWakeContract:
    @pytest.mark.multiprocess
    @pytest.mark.slow
    @pytest.mark.parametrize("options", [{}, {"delay": 0.2}], ids=["ready", "delayed"])
    def test_a_put_in_another_process_wakes(
        self, live: QueueStore, harness: StoreHarness, options: dict[str, Any]
    ) -> None:
        told = harness.context().Event()
        process = harness.in_process(_put_when_told, told, options)
        with live.listen(["jobs"]) as waiter:
            assert lease(live) == []
            told.set()
            assert waiter.wait(PATIENCE)
        take(live)
        finish([process])

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_a_lease_in_another_process_wakes_a_producer_that_waits_for_room(
        self, live: QueueStore, harness: StoreHarness
    ) -> None:
        put_many(live, "ab")
        told = harness.context().Event()
        process = harness.in_process(_lease_when_told, told)
        with live.listen_capacity({"jobs": 2}) as waiter:
            assert not waiter.wait(0)
            told.set()
            assert waiter.wait(PATIENCE)
        finish([process])

    @pytest.mark.multiprocess
    @pytest.mark.slow
    @pytest.mark.parametrize("worker", [None, "w"], ids=["queue", "worker"])
    def test_a_resume_in_another_process_wakes(
        self, live: QueueStore, harness: StoreHarness, worker: str | None
    ) -> None:
        put(live)
        live.pause("jobs", worker=worker)
        told = harness.context().Event()
        process = harness.in_process(_resume_when_told, told, worker)
        with live.listen(["jobs"], worker="w") as waiter:
            assert not waiter.wait(0)
            told.set()
            assert waiter.wait(PATIENCE)
        take(live, leased_by="w")
        finish([process])

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_an_ack_in_another_process_wakes_who_waits_for_the_run(
        self, live: QueueStore, harness: StoreHarness
    ) -> None:
        put(live, run_id="r")
        told = harness.context().Event()
        process = harness.in_process(_lease_when_told, told)
        with live.listen_run("r") as waiter:
            told.set()
            while (run := live.run("r")) is not None and run.state != "succeeded":
                assert waiter.wait(PATIENCE)
        finish([process])

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_the_lease_of_a_killed_process_wakes_when_it_ends(self, live: QueueStore, harness: StoreHarness) -> None:
        put(live)
        holding = harness.context().Event()
        process = harness.in_process(_hold_until_killed, holding)
        assert holding.wait(PATIENCE)
        process.kill()
        process.join(PATIENCE)
        with live.listen(["jobs"]) as waiter:
            assert waiter.wait(PATIENCE)
        assert take(live).attempts == 2
        assert live.check().ok
