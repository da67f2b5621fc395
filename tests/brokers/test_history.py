"""The check of a history finds each fault that is planted in one, and nothing in one that is right."""

from __future__ import annotations

import pytest

from tests.brokers.history import Event, faults

SENT, CONFIRMED, HANDLED = Event("sent", 1), Event("confirmed", 1), Event("handled", 1)
ACKED, OPEN = Event("acked", 1), Event("open", 1)
OTHER = [Event("sent", 2), Event("confirmed", 2), Event("handled", 2), Event("acked", 2)]


@pytest.mark.parametrize(
    "history",
    [
        [SENT, CONFIRMED, HANDLED, ACKED],
        [SENT, HANDLED, ACKED, CONFIRMED],  # the handler was quicker than the confirm
        [SENT, CONFIRMED, HANDLED, HANDLED, ACKED],  # the first ack was not accepted
        [SENT, CONFIRMED, HANDLED, OPEN],  # nobody knows, and it did not come again
        [SENT, CONFIRMED, HANDLED, OPEN, HANDLED, ACKED],  # it did
        [SENT],  # nobody knows whether it was taken
        [SENT, HANDLED, ACKED],  # it was
        [SENT, HANDLED],  # and its ack was lost
    ],
)
def test_a_right_history_has_no_faults(history: list[Event]) -> None:
    assert faults([*history, *OTHER], final_acks=True) == []


@pytest.mark.parametrize(
    ("history", "fault"),
    [
        ([SENT, CONFIRMED], "1 was confirmed and never handled"),
        ([SENT, CONFIRMED, HANDLED], "1 was handled and never acked"),
        ([SENT, CONFIRMED, HANDLED, ACKED, HANDLED], "1 was handled again after its ack was accepted"),
        ([SENT, CONFIRMED, ACKED, HANDLED], "1 was acked before it was handled"),
        ([SENT, CONFIRMED, HANDLED, ACKED, ACKED], "1 was acked before it was handled"),
        ([HANDLED, ACKED], "1 was handled although nobody had sent it"),
        ([SENT, SENT, CONFIRMED, HANDLED, ACKED], "1 was sent twice, which makes a history that proves nothing"),
    ],
)
def test_a_planted_fault_is_found(history: list[Event], fault: str) -> None:
    assert fault in faults([*OTHER, *history], final_acks=True)
    assert fault in faults([*history, *OTHER], final_acks=True)


def test_a_message_may_come_again_behind_its_ack_where_acks_are_not_final() -> None:
    assert faults([SENT, CONFIRMED, HANDLED, ACKED, HANDLED, ACKED], final_acks=False) == []
