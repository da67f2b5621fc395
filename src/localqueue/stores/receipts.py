"""Where the messages of pages are stored: a record that is written with them, for who may have to find them again.

It is a list of `[queue, after, until]`, the bounds that `scan` takes, between which a queue has these messages and no
others: ids of a page are consecutive and nobody else's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localqueue._named_tuple import NamedTuple
from localqueue.ids import Mint
from localqueue.stores.port import Limit, Page, RecordWrite


class Placed(NamedTuple):
    """Messages of one queue, behind one id and up to another."""

    queue: str
    after: str
    until: str


def placed(ids: Mint, page: Page, limits: Mapping[str, Limit], keys: Sequence[int]) -> list[Placed]:
    """Where a page is of which messages were stored under these keys."""
    names = {page.queue} if isinstance(page.queue, str) else {*page.queue}
    names |= {limits[name].overflow_queue or name for name in names & limits.keys()}
    after, until = ids.id_of(min(keys) - 1), ids.id_of(max(keys))
    return [Placed(name, after, until) for name in sorted(names)]


def written_receipt(receipt: tuple[str, str], places: Sequence[Placed]) -> RecordWrite:
    kind, key = receipt
    return RecordWrite(kind, key, json.dumps(places).encode())


def read_receipt(value: bytes) -> list[Placed]:
    """What the record says."""
    return [Placed(*place) for place in json.loads(value)]
