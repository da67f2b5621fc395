"""What a journal lets go of, whatever the clock does meanwhile.

Entries have numbers in the order in which they were written, and times by a clock that may jump. The numbers are right:

- A time counts as the present when it has been there for `CONFIRMED_BY` entries. A clock that is ahead for a moment
  makes nothing old.
- An entry whose time has not come yet was written before the clock was set back. It is as old as what was written
  after it, of which some entries are looked at, each twice as far from the newest as the one before.

The stores that let go inside the database (SQLite, PostgreSQL, Redis) have the same rule in their own language.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

CONFIRMED_BY = 64
_DISTANCES = tuple(CONFIRMED_BY << n for n in range(21))


def beyond(
    oldest: Iterable[tuple[int, float]],
    time_of: Callable[[int], float | None],
    *,
    last: int,
    now: float,
    keep_seconds: float | None,
    keep_events: int | None,
) -> list[int]:
    """The numbers of those of the oldest entries that are not kept. `time_of` is asked for the times of others."""
    first = 0 if keep_events is None else last - keep_events + 1
    confirmed = None if keep_seconds is None or last <= CONFIRMED_BY else time_of(last - CONFIRMED_BY)
    since = -math.inf if keep_seconds is None or confirmed is None else min(now, confirmed) - keep_seconds
    behind: int | None = None
    gone = []
    for number, at in oldest:
        if at > now and behind is None:
            behind = _last_before(since, time_of, last)
        if number < first or at < since or (at > now and number < (behind or 0)):
            gone.append(number)
    return gone


def _last_before(since: float, time_of: Callable[[int], float | None], last: int) -> int:
    """The last of the entries farther and farther from the newest that is older than that."""
    for distance in _DISTANCES:
        if distance >= last:
            break
        at = time_of(last - distance)
        if at is not None and at < since:
            return last - distance
    return 0
