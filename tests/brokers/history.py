"""What the two ends of a queue saw, in the order in which they saw it, and what must be true of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple


class Event(NamedTuple):
    """A message, by its number, was `sent`; the broker `confirmed` it; a handler `handled` it; its ack was accepted.

    An ack that nobody answered is `open`: the message is settled, or it comes again. A number is sent once: who does
    not know whether a message was taken sends another number.
    """

    what: Literal["sent", "confirmed", "handled", "acked", "open"]
    number: int


def faults(history: Sequence[Event], *, final_acks: bool) -> list[str]:
    """What is wrong with a history that has come to its end; with `final_acks` also what came again behind its ack."""
    counts = {what: Counter[int]() for what in ("sent", "confirmed", "handled", "acked", "open")}
    found: list[str] = []
    for what, number in history:
        counts[what][number] += 1
        if what == "sent" and counts["sent"][number] > 1:
            found.append(f"{number} was sent twice, which makes a history that proves nothing")
        if what in ("confirmed", "handled") and not counts["sent"][number]:
            found.append(f"{number} was {what} although nobody had sent it")
        if what == "handled" and final_acks and counts["acked"][number]:
            found.append(f"{number} was handled again after its ack was accepted")
        if what == "acked" and counts["acked"][number] > counts["handled"][number]:
            found.append(f"{number} was acked before it was handled")
    lost = sorted(set(counts["confirmed"]) - set(counts["handled"]))
    unsettled = sorted(set(counts["confirmed"]) & set(counts["handled"]) - set(counts["acked"]) - set(counts["open"]))
    found += [f"{number} was confirmed and never handled" for number in lost]
    found += [f"{number} was handled and never acked" for number in unsettled]
    return found
