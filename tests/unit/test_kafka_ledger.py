"""What is committed of a partition: the first offset that is not done, and what behind it is."""

from __future__ import annotations

import random

from localqueue.brokers.kafka.ledger import Ledger, Mark, read


def _seen(*offsets: int, start: int = 0) -> Ledger:
    ledger = Ledger(start)
    for offset in offsets:
        assert ledger.see(offset)
    return ledger


def test_nothing_is_committed_beyond_what_is_not_done() -> None:
    ledger = _seen(5, 6, 7, start=5)
    assert ledger.mark() == Mark(5, "")
    ledger.finish(6)
    assert ledger.mark().position == 5 and read(ledger.mark().metadata) == {6}
    ledger.finish(5)
    assert ledger.mark() == Mark(7, "")
    ledger.finish(7)
    assert ledger.mark() == Mark(8, "")


def test_gaps_between_offsets_hold_nothing_up() -> None:
    ledger = _seen(3, 8, 20)
    ledger.finish(3)
    assert ledger.mark() == Mark(8, "")
    ledger.finish(8)
    ledger.finish(20)
    assert ledger.mark() == Mark(21, "")


def test_what_was_done_before_is_not_given_out_again() -> None:
    ledger = _seen(0, 1, 2, 3)
    for offset in (1, 3):
        ledger.finish(offset)
    position, metadata = ledger.mark()
    again = Ledger(position, read(metadata))
    assert [offset for offset in range(position, 6) if again.see(offset)] == [0, 2, 4, 5]
    again.finish(0)
    assert again.mark().position == 2 and read(again.mark().metadata) == {3}


def test_what_was_given_back_is_not_done() -> None:
    ledger = _seen(0, 1)
    ledger.finish(0)
    ledger.reopen(0)
    assert ledger.mark() == Mark(0, "")


def test_metadata_is_never_longer_than_the_server_takes() -> None:
    ledger = _seen(*range(10_000))
    for offset in range(1, 10_000, 2):
        ledger.finish(offset)
    position, metadata = ledger.mark()
    assert position == 0 and len(metadata) <= 4000
    kept = read(metadata)
    assert len(kept) > 700 and kept == set(range(1, max(kept) + 1, 2))


def test_metadata_of_another_program_says_nothing() -> None:
    for metadata in (None, "", "x", "localqueue:", "localqueue:a-b,,-3"):
        assert read(metadata) == set()


def test_any_order_of_finishing_is_told_by_the_mark() -> None:
    chance = random.Random(3)
    for _ in range(50):
        offsets = sorted(chance.sample(range(200), 40))
        ledger, done = _seen(*offsets), set[int]()
        for offset in chance.sample(offsets, 40):
            ledger.finish(offset)
            done.add(offset)
            mark = ledger.mark()
            if chance.random() < 0.5:
                ledger.committed(mark)
            open_ones = [one for one in offsets if one not in done]
            assert mark.position == (open_ones[0] if open_ones else offsets[-1] + 1)
            assert read(mark.metadata) == {one for one in done if one > mark.position}
