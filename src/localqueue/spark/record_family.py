"""The records of a kind whose keys begin alike, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from localqueue.stores.port import QueueStore, Record

_PAGE = 500


def records_under(store: QueueStore, kind: str, prefix: str, *, page: int = _PAGE) -> Iterator[Record]:
    """By their keys. A page brings the values with it: where these are large, one at a time."""
    after = prefix
    while found := store.records(kind, after=after, limit=page):
        for record in found:
            if not record.key.startswith(prefix):
                return
            yield record
        after = found[-1].key
