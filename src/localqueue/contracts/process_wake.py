"""Wake-ups across processes: a consumer or producer here, woken by what another process does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localqueue.contracts.harness import StoreHarness
from localqueue.contracts.processes import finish
from localqueue.contracts.record_wake import tell
from localqueue.contracts.steps import PATIENCE, ack, lease, put, put_many, take
from localqueue.stores.port import BellWaiter, QueueStore


def _put_when_told(store: QueueStore, told: Any, options: dict[str, Any]) -> None:
    assert told.wait(PATIENCE)
    put(store, **options)


def _lease_when_told(store: QueueStore, told: Any) -> None:
    assert told.wait(PATIENCE)
    assert ack(store, take(store))


def _resume_when_told(store: QueueStore, told: Any, worker: str | None) -> None:
    assert told.wait(PATIENCE)
    store.resume("jobs", worker=worker)


def _write_when_told(store: QueueStore, told: Any, value: bytes | None) -> None:
    assert told.wait(PATIENCE)
    tell(store, "a", value)


def _hold_until_killed(store: QueueStore, holding: Any) -> None:
    take(store, timeout=0.5)
    holding.set()
    threading.Event().wait(PATIENCE * 2)


class ProcessWakeContract:
    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_a_put_in_another_process_rings_a_bell(self, live: QueueStore, harness: StoreHarness) -> None:
        told, rung = harness.context().Event(), threading.Event()
        process = harness.in_process(_put_when_told, told, {})
        with live.listen(["jobs"]) as waiter:
            if isinstance(waiter, BellWaiter):
                waiter.ring(rung.set)
                assert not waiter.look()[0]
            else:
                rung.set()
            told.set()
            assert rung.wait(PATIENCE)
        finish([process])

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
    @pytest.mark.parametrize("value", [b"new", None], ids=["written", "deleted"])
    def test_a_record_of_another_process_wakes_who_waits_for_it(
        self, live: QueueStore, harness: StoreHarness, value: bytes | None
    ) -> None:
        tell(live, "a", b"old")
        told = harness.context().Event()
        process = harness.in_process(_write_when_told, told, value)
        with live.listen_records("k", ["a"]) as waiter:
            assert not waiter.wait(0)
            told.set()
            assert waiter.wait(PATIENCE)
        found = live.record("k", "a")
        assert value == (None if found is None else found.value)
        finish([process])

    @pytest.mark.multiprocess
    @pytest.mark.slow
    def test_the_lease_of_a_killed_process_wakes_when_it_ends(self, live: QueueStore, harness: StoreHarness) -> None:
        put(live)
        holding = harness.context().Event()
        process = harness.in_process(_hold_until_killed, holding)
        assert holding.wait(2 * PATIENCE)
        process.kill()
        process.join(PATIENCE)
        with live.listen(["jobs"]) as waiter:
            assert waiter.wait(PATIENCE)
        assert take(live).attempts == 2
        assert live.check().ok
