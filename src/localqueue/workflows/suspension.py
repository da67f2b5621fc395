"""Putting a step aside: it is called again from its beginning when what it waits for has come."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.stores.port import RecordWrite

#: How long a message rests that waits for a signal without a limit, and one of a run that stands still: years. Those
#: of the second kind are known by it.
WITHOUT_END = 10 * 365 * 86400.0
HELD = 100 * 365 * 86400.0


class Suspended(BaseException):
    """Ends a step until `until`, by the store's clock, or until somebody brings it back.

    No Exception: a step that catches whatever goes wrong must not catch this. `records` are what has to be written with
    it; where somebody else wrote there in the meantime, the step is called again at once.
    """

    def __init__(self, until: float | None, records: Sequence[RecordWrite], what: str) -> None:
        super().__init__(what)
        self.until = until
        self.records = tuple(records)
        self.what = what


def together(several: Sequence[Suspended]) -> Suspended:
    """All of them as one, which ends when the first of them does."""
    times = [one.until for one in several if one.until is not None]
    records = [record for one in several for record in one.records]
    return Suspended(min(times, default=None), records, "; ".join(one.what for one in several))


def is_held(available_at: float, now: float) -> bool:
    """Whether a delayed message rests because its run stood still."""
    return available_at - now > HELD / 2
