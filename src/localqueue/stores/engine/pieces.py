"""What concerns many messages is done in pieces, a transaction each, so that others come between.

How many messages make a piece is found out on the way: nobody is to be held up for long, however slow the disk or large
the messages are.
"""

from __future__ import annotations

FIRST = 500
_FEWEST, _MOST = 10, 5000
_AIM = 0.1  # seconds


def next_size(size: int, took: float) -> int:
    """How many messages the next piece may have, after one of this size took so many seconds."""
    fits = int(size * _AIM / max(took, 1e-6))
    return max(_FEWEST, min(fits, 2 * size, _MOST))
