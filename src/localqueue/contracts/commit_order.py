"""Order is the order of the commits, whatever the clocks of the clients say and however long ago an id was minted."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import ack, assert_sound, drain, new, payloads, put, put_many, stored, take
from localqueue.errors import IdTaken, QueueFull, RunCancelled, UnknownMessage
from localqueue.ids import Mint
from localqueue.stores.port import Changes, Edge, Limit, NewMessage, QueueStore, Settle


class CommitOrderContract:
    """`old` ids stand for clients whose clocks are behind, and for those that were slow to commit."""

    def test_messages_of_an_ordering_key_come_in_the_order_of_their_commits(self, store: QueueStore) -> None:
        old = store.mint(3)
        put(store, payload="0", ordering_key="k")
        put(store, payload="1", ordering_key="k")
        for n, message_id in enumerate(reversed(old), 2):
            store.commit(Changes(enqueue=[NewMessage(message_id, "jobs", str(n), ordering_key="k")]))
        put_many(store, "56", ordering_key="k")
        assert drain(store) == list("0123456")
        assert_sound(store)

    def test_a_batch_goes_behind_what_its_ordering_keys_have(self, store: QueueStore) -> None:
        old = store.mint(6)
        put_many(store, ["a0", "a1"], ordering_key="a")
        put_many(store, ["b0", "b1"], ordering_key="b")
        batch = [
            NewMessage(one, "jobs", f"{key}{n}", ordering_key=key)
            for one, key, n in zip(old, "ababab", "223344", strict=True)
        ]
        done = store.commit(Changes(enqueue=batch)).enqueued
        assert [stored(store, one.id or message.id).payload for one, message in zip(done, batch, strict=True)] == [
            message.payload for message in batch
        ]
        seen = drain(store)
        assert [one for one in seen if one[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert [one for one in seen if one[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
        assert_sound(store)

    def test_messages_of_a_commit_still_refer_to_each_other(self, store: QueueStore) -> None:
        first, second, third, dead = store.mint(4)
        put_many(store, ["0", "1"], ordering_key="k")
        done = store.commit(
            Changes(
                enqueue=[
                    NewMessage(first, "jobs", "2", ordering_key="k"),
                    NewMessage(second, "jobs", "last", after=(first,)),
                    NewMessage(third, "jobs", "before last"),
                    NewMessage(dead, "jobs", "dead"),
                ],
                edges=[Edge(third, second)],
                settle=[Settle("jobs", dead, "dead-letter")],
            )
        ).enqueued
        names = [one.id or given for one, given in zip(done, (first, second, third, dead), strict=True)]
        assert set(store.upstream("jobs", names[1])) == {names[0], names[2]}
        assert stored(store, names[3]).state == "dead"
        assert drain(store)[-1] == "last"
        assert_sound(store)

    def test_who_keeps_the_ids_is_told_to_mint_again(self, store: QueueStore) -> None:
        (old,) = store.mint()
        put_many(store, ["0", "1"], ordering_key="k")
        with pytest.raises(IdTaken):
            store.commit(Changes(enqueue=[NewMessage(old, "jobs", "2", ordering_key="k")], keep_ids=True))
        assert payloads(store.scan("jobs")) == ["0", "1"]
        again = new(store, payload="2", ordering_key="k")
        (done,) = store.commit(Changes(enqueue=[again], keep_ids=True)).enqueued
        assert done.id is None and stored(store, again.id).payload == "2"
        assert drain(store) == ["0", "1", "2"]

    def test_a_message_that_is_there_is_not_stored_again_under_a_newer_id(self, store: QueueStore) -> None:
        taken = put(store, payload="0", ordering_key="k")
        put_many(store, ["1", "2"], ordering_key="k")
        for options in ({"ordering_key": "k"}, {}):
            with pytest.raises(IdTaken):
                store.commit(Changes(enqueue=[NewMessage(taken, "jobs", "0", **options)]))  # type: ignore[arg-type]
        assert drain(store) == ["0", "1", "2"]

    def test_what_is_refused_is_refused_in_the_same_words(self, store: QueueStore) -> None:
        old = store.mint(3)
        (elsewhere,) = Mint(12345).take()
        put_many(store, ["0", "1"], ordering_key="k")
        put(store, "other", run_id="r")
        store.cancel_run("r")
        full = {"jobs": Limit(2, "reject")}
        with pytest.raises(QueueFull):
            store.commit(Changes(enqueue=[NewMessage(old[0], "jobs", "2", ordering_key="k")], limits=full))
        with pytest.raises(UnknownMessage, match=elsewhere):
            store.commit(Changes(enqueue=[NewMessage(old[1], "jobs", "2", ordering_key="k", after=(elsewhere,))]))
        with pytest.raises(RunCancelled, match="'r'"):
            store.commit(Changes(enqueue=[NewMessage(old[2], "jobs", "2", ordering_key="k", run_id="r")]))
        assert drain(store) == ["0", "1"]
        assert_sound(store, ["jobs", "other"])


class AscendingIdsContract:
    """For a store whose commits wait for each other: what is stored later has the greater id, of any kind."""

    def test_a_page_misses_no_message_that_was_committed_later(self, store: QueueStore) -> None:
        old = store.mint(4)
        put(store, payload="0")
        (page,) = store.scan("jobs")
        store.commit(Changes(enqueue=[NewMessage(old[0], "jobs", "1")]))
        store.commit(Changes(enqueue=[NewMessage(old[1], "jobs", "2", delay=9.0), NewMessage(old[2], "jobs", "3")]))
        store.put_one("jobs", "4", None)
        assert payloads(store.scan("jobs", after=page.id)) == ["1", "2", "3", "4"]
        newest = store.scan("jobs")[-1].id
        assert store.purge("jobs") == 5
        store.commit(Changes(enqueue=[NewMessage(old[3], "jobs", "5", dedupe_key="d")]))
        assert payloads(store.scan("jobs", after=newest)) == ["5"], "also when the messages of the page are gone"
        assert_sound(store)

    def test_what_overflows_goes_behind_what_the_other_queue_has(self, store: QueueStore) -> None:
        (old,) = store.mint()
        put(store)
        there = put(store, "spill")
        limits = {"jobs": Limit(1, "overflow-queue", "spill")}
        store.commit(Changes(enqueue=[NewMessage(old, "jobs", "over")], limits=limits))
        assert payloads(store.scan("spill", after=there)) == ["over"]


class SteadyLineContract:
    """For a store that has no clock but those of the processes that use it."""

    def test_the_oldest_is_the_first_in_line_when_the_clock_goes_back(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put_many(store, "abc")
        clock.jump_back(3600)
        late = [NewMessage(one, "jobs", text) for one, text in zip(store.mint(3), "xyz", strict=True)]
        store.commit(Changes(enqueue=late, limits={"jobs": Limit(2, "drop-oldest")}))
        assert drain(store) == ["x", "y", "z"]

    def test_plain_messages_come_in_the_order_of_their_commits_when_the_clock_goes_back(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="0")
        store.put_batch("jobs", ["1", "2"], None)
        clock.jump_back(3600)
        store.put_one("jobs", "3", None)
        put(store, payload="4")
        put_many(store, ["5", "6"])
        store.put_batch("jobs", ["7", "8"], None)
        first = take(store)
        assert first.payload == "0" and ack(store, first)
        assert_sound(store)
        store.commit(Changes(settle=[Settle("jobs", store.scan("jobs")[4].id, "cancel")]))
        assert drain(store) == ["1", "2", "3", "4", "6", "7", "8"]
        assert_sound(store)
