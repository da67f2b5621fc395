"""Batches of SQS: ten entries at most, and so many bytes, each of which is taken or refused by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from localqueue.brokers.sqs import errors

MOST = 10
_MOST_BYTES = 262_144  # AWS takes four times as much; others that speak its API do not
_TRIES = 4
_PAUSE = 0.1

Entry = dict[str, Any]
Answer = dict[str, Any]


def chunks(sizes: Sequence[int]) -> Iterator[range]:
    """Positions that go together."""
    first, total = 0, 0
    for position, size in enumerate(sizes):
        if position > first and (position - first == MOST or total + size > _MOST_BYTES):
            yield range(first, position)
            first, total = position, 0
        total += size
    if first < len(sizes):
        yield range(first, len(sizes))


def ask(call: Callable[..., Any], url: str, entries: Sequence[Entry]) -> list[Answer]:
    """An answer for each of at most ten entries: one with a `Code` was refused. Those that the service was too busy for
    are sent again, a few times."""
    answers: dict[str, Answer] = {}
    left: dict[str, Entry] = {str(number): {"Id": str(number), **one} for number, one in enumerate(entries)}
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE * 2 ** (attempt - 1))
        said = call(QueueUrl=url, Entries=list(left.values()))
        answers.update({one["Id"]: one for one in (*said.get("Successful", ()), *said.get("Failed", ()))})
        left = {number: one for number, one in left.items() if _wants_another_try(answers.get(number))}
        if not left:
            break
    return [answers.get(str(number), {"Code": "NoAnswer", "SenderFault": False}) for number in range(len(entries))]


def _wants_another_try(answer: Answer | None) -> bool:
    return answer is None or ("Code" in answer and errors.is_passing(answer))


def named(positions: Iterable[int]) -> str:
    """Positions in a sentence, such as `0-9, 12`."""
    spans: list[list[int]] = []
    for one in positions:
        if spans and spans[-1][1] == one - 1:
            spans[-1][1] = one
        else:
            spans.append([one, one])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
