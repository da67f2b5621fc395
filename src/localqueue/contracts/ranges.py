"""Ranges of ids: a queue is read in pieces that have an end, by several readers if they like."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import dead_letter, lease, override, put, put_many, take
from localqueue.stores.port import STATES, QueueStore, StoredMessage


def _ranges(store: QueueStore, ends: list[str], queue: str = "jobs") -> list[list[StoredMessage]]:
    """The messages of each range that `splits` found."""
    starts: list[str | None] = [None, *ends[:-1]]
    return [store.scan(queue, after=start, until=end) for start, end in zip(starts, ends, strict=True)]


def _put_in_every_state(store: QueueStore, clock: FakeClock) -> list[str]:
    """Some messages of each state, those of each kind one after the other; all ids in ascending order."""
    ids = put_many(store, "abc", priority=9)
    dead, cancelled, *_ = (take(store) for _ in range(3))
    dead_letter(store, dead)
    override(store, cancelled.id, "cancel")
    ids += put_many(store, "def", ttl=1)
    clock.advance(2)
    assert lease(store) == []
    ids += put_many(store, "ghi", delay=60)
    ids += put_many(store, "jkl", after=(ids[2],))
    ids += put_many(store, "mno", ordering_key="k")
    ids += put_many(store, "pqr")
    return ids


class RangeContract:
    def test_a_scan_ends_with_the_message_that_is_wanted_last(self, store: QueueStore) -> None:
        ids = put_many(store, (str(n) for n in range(9)))
        put(store, "other")
        assert [m.id for m in store.scan("jobs", until=ids[3])] == ids[:4]
        assert [m.id for m in store.scan("jobs", after=ids[1], until=ids[3])] == ids[2:4]
        assert [m.id for m in store.scan("jobs", after=ids[1], until=ids[7], limit=3)] == ids[2:5]
        assert [m.id for m in store.scan("jobs", until=ids[-1])] == ids
        assert store.scan("jobs", after=ids[3], until=ids[3]) == store.scan("jobs", after=ids[5], until=ids[2]) == []

    def test_a_scan_may_end_with_a_message_that_is_gone_or_elsewhere(self, store: QueueStore) -> None:
        first = put(store)
        elsewhere = put(store, "other")
        gone = put(store)
        last = put(store)
        override(store, gone, "ack")
        assert [m.id for m in store.scan("jobs", until=elsewhere)] == [first]
        assert [m.id for m in store.scan("jobs", until=gone)] == [first]
        assert [m.id for m in store.scan("jobs", after=gone, until=last)] == [last]
        assert store.scan("never used", until=last) == []

    def test_a_scan_of_one_live_state_has_an_end_too(self, store: QueueStore, clock: FakeClock) -> None:
        ids = _put_in_every_state(store, clock)
        for state in ("ready", "delayed", "inflight", "waiting", "blocked"):
            found = [message.id for message in store.scan("jobs", state=state)]
            assert found
            for end in ids:
                until = [message.id for message in store.scan("jobs", state=state, until=end)]
                assert until == [one for one in found if one <= end]

    @pytest.mark.parametrize("state", ["dead", "expired", "cancelled"])
    def test_messages_by_the_time_they_left_have_no_last_id(self, store: QueueStore, state: str) -> None:
        with pytest.raises(ValueError, match="until"):
            store.scan("jobs", state=state, until=put(store))

    @pytest.mark.parametrize("until", ["", "nope", "0" * 32])
    def test_a_scan_until_what_is_no_id_is_refused(self, store: QueueStore, until: str) -> None:
        put(store)
        with pytest.raises(ValueError, match="until"):
            store.scan("jobs", until=until)

    def test_splits_are_the_ends_of_about_equal_ranges(self, store: QueueStore) -> None:
        ids = []
        for n in range(100):
            ids.append(put(store))
            put(store, f"other-{n % 2}")
        assert store.splits("jobs", 1) == ids[-1:]
        for parts in (2, 3, 7, 64, 99, 100):
            ends = store.splits("jobs", parts)
            ranges = _ranges(store, ends)
            assert [message.id for found in ranges for message in found] == ids
            assert abs(len(ends) - parts) <= parts // 10
            assert max(map(len, ranges)) - min(map(len, ranges)) <= 2

    def test_a_queue_has_no_more_splits_than_messages(self, store: QueueStore) -> None:
        assert store.splits("jobs", 8) == []
        ids = put_many(store, "abc")
        assert store.splits("jobs", 8) == store.splits("jobs", 3) == ids
        for message_id in ids:
            override(store, message_id, "ack")
        assert store.splits("jobs", 8) == []

    def test_splits_cover_messages_of_every_state(self, store: QueueStore, clock: FakeClock) -> None:
        ids = _put_in_every_state(store, clock)
        assert {message.state for message in store.scan("jobs")} == set(STATES)
        assert store.splits("jobs", len(ids)) == ids
        newest = put(store, delay=60)
        assert store.splits("jobs", 4)[-1] == newest

    def test_a_walk_up_to_the_last_split_ends_while_others_put(self, store: QueueStore) -> None:
        put_many(store, "abcde")
        ends = store.splits("jobs", 2)
        put_many(store, "fgh")
        assert [message.payload for found in _ranges(store, ends) for message in found] == list("abcde")

    @pytest.mark.parametrize("parts", [0, -1])
    def test_less_than_one_part_is_refused(self, store: QueueStore, parts: int) -> None:
        with pytest.raises(ValueError, match="parts"):
            store.splits("jobs", parts)

    def test_splits_of_thousands_are_about_equal_whatever_was_put_beside_them(self, store: QueueStore) -> None:
        for n in range(6):
            store.put_batch("jobs", [str(n)] * 1000, None)
            store.put_batch("other", ["x"] * 500, None)
        leased = lease(store, limit=700, timeout=3600)
        for message in leased[:300]:
            dead_letter(store, message)
        ranges = _ranges(store, store.splits("jobs", 4))
        assert sum(map(len, ranges)) == 6000
        assert all(1300 < len(found) < 1700 for found in ranges)
        assert len({message.id for found in ranges for message in found}) == 6000
