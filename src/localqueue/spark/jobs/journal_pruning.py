"""Removing from the journal what an archive has, and nothing else.

A journal is pruned by age and archived by number. The two agree but for entries of transactions that took long, whose
time is older than that of entries before them: hence the margin.
"""

from __future__ import annotations

from localqueue.spark.options import Options
from localqueue.spark.place import opened

#: Entries younger than this many seconds stay, so that a transaction that is still open loses nothing.
MARGIN = 300.0
_PAGE = 5_000


def prune_archived(place: Options, *, through: int, older_than: float = 0.0, margin: float | None = None) -> int:
    """Remove entries up to the number `through` that are at least `older_than` seconds old; how many."""
    margin = MARGIN if margin is None else margin
    with opened(place) as store:
        first, last = store.journal_span()
        if first > min(through, last):
            return 0
        now = store.now()
        youngest = now - max(older_than, margin)
        after = through
        while after < last and (page := store.events(after, _PAGE)):
            after = page[-1].seq
            # An entry that is not archived keeps all that is not clearly older than it.
            youngest = min(youngest, min(event.at for event in page) - 0.001)
        age = store.now() - youngest
        return store.prune_events(older_than=max(age, 0.0))
