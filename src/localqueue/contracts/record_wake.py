"""Waiting for records: who waits is woken by the commit that writes or deletes one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.steps import MOMENT, PATIENCE, ack, put, take
from localqueue.contracts.wake import Waiting
from localqueue.errors import LeaseLost, RecordConflict
from localqueue.stores.port import Changes, LeaseRequest, QueueStore, RecordWrite, Settle


def tell(store: QueueStore, key: str, value: bytes | None = b"v", expect: int | None = None, kind: str = "k") -> None:
    """Write or delete a record, and have those told who wait for it."""
    store.commit(Changes(records=[RecordWrite(kind, key, value, expect, tell=True)]))


class RecordWakeContract:
    def test_a_record_that_is_written_wakes(self, live: QueueStore) -> None:
        for value in (b"new", b"changed", None):
            with live.listen_records("k", ["a"]) as waiter:
                assert not waiter.wait(0)
                waiting = Waiting(waiter)
                tell(live, "a", value)
                assert waiting.woken()

    def test_who_waits_for_several_records_is_woken_by_any(self, live: QueueStore) -> None:
        tell(live, "b")
        with live.listen_records("k", ["a", "b", "c", "a"]) as waiter:
            for key, value in (("c", b"new"), ("b", None), ("a", b"new")):
                waiting = Waiting(waiter)
                tell(live, key, value)
                assert waiting.woken()

    def test_a_change_wakes_once(self, live: QueueStore) -> None:
        with live.listen_records("k", ["a"]) as waiter:
            tell(live, "a")
            assert waiter.wait(PATIENCE)
            assert not waiter.wait(0)

    def test_a_value_that_is_written_again_wakes(self, live: QueueStore) -> None:
        tell(live, "a")
        with live.listen_records("k", ["a"]) as waiter:
            tell(live, "a")
            assert waiter.wait(PATIENCE)

    def test_everybody_who_waits_for_a_record_is_woken(self, live: QueueStore) -> None:
        waiters = [live.listen_records("k", ["a", str(n)]) for n in range(5)]
        waiting = [Waiting(waiter) for waiter in waiters]
        tell(live, "a")
        assert all(one.woken() for one in waiting)
        for waiter in waiters:
            waiter.close()

    def test_another_record_does_not_wake(self, live: QueueStore) -> None:
        tell(live, "a")
        with live.listen_records("k", ["a"]) as waiter:
            tell(live, "b")
            tell(live, "a", kind="other")
            put(live)
            assert not waiter.wait(MOMENT)

    def test_no_wake_is_lost_between_looking_and_waiting(self, live: QueueStore) -> None:
        with live.listen_records("k", ["a"]) as waiter:
            for n in range(20):
                tell(live, "a", str(n).encode())
                assert waiter.wait(PATIENCE)
                found = live.record("k", "a")
                assert found is not None
                assert found.value == str(n).encode()

    def test_what_is_written_without_telling_is_noticed_some_time(self, live: QueueStore) -> None:
        with live.listen_records("k", ["a"]) as waiter:
            live.commit(Changes(records=[RecordWrite("k", "a", b"v")]))
            assert waiter.wait(PATIENCE)

    @pytest.mark.parametrize("claims", [True, False], ids=["claiming", "last"])
    def test_a_record_of_a_workers_step_wakes(self, live: QueueStore, claims: bool) -> None:
        put(live)
        put(live)
        message = take(live)
        step = Changes(
            settle=[Settle("jobs", message.id, "ack", message.attempts)],
            records=[RecordWrite("k", message.id, b"done", tell=True)],
            lease=LeaseRequest("jobs") if claims else None,
        )
        with live.listen_records("k", [message.id]) as waiter:
            waiting = Waiting(waiter)
            committed = live.commit(step)
            assert waiting.woken()
        assert (committed.settled, len(committed.leased), len(committed.versions)) == ([True], int(claims), 1)

    def test_a_record_of_a_batch_wakes(self, live: QueueStore) -> None:
        with live.listen_records("k", ["a"]) as waiter:
            waiting = Waiting(waiter)
            live.put_batch("jobs", ["x", "y"], None, records=[RecordWrite("k", "a", b"v", tell=True)])
            assert waiting.woken()

    def test_a_commit_that_is_refused_wakes_nobody(self, live: QueueStore) -> None:
        put(live)
        message = take(live)
        assert ack(live, message)
        lost = Settle("jobs", message.id, "ack", message.attempts)
        refused: tuple[tuple[type[Exception], Callable[[], object]], ...] = (
            (RecordConflict, lambda: tell(live, "a", expect=7)),
            (
                LeaseLost,
                lambda: live.commit(Changes(settle=[lost], records=[RecordWrite("k", "a", b"v", tell=True)])),
            ),
        )
        with live.listen_records("k", ["a"]) as waiter:
            for error, call in refused:
                with pytest.raises(error):
                    call()
            assert not waiter.wait(MOMENT)

    def test_many_records_of_one_commit_wake_who_waits_for_one(self, live: QueueStore) -> None:
        with live.listen_records("k", ["77"]) as waiter:
            waiting = Waiting(waiter)
            live.commit(Changes(records=[RecordWrite("k", str(n), b"v", tell=True) for n in range(200)]))
            assert waiting.woken()

    def test_who_waits_for_no_record_waits_out_his_time(self, live: QueueStore) -> None:
        with live.listen_records("k", []) as waiter:
            tell(live, "a")
            assert not waiter.wait(MOMENT)

    def test_a_wait_for_records_can_be_interrupted(self, live: QueueStore) -> None:
        with live.listen_records("k", ["a"]) as waiter:
            waiter.interrupt()
            assert not waiter.wait(PATIENCE)
