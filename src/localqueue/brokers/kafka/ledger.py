"""Which records of a partition are done, in terms of the one offset that Kafka keeps."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_PREFIX = "localqueue:"
_LONGEST = 4000  # characters; the server takes 4,096 bytes
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")


class Mark(NamedTuple):
    """What is committed: the first offset that is not done, and in `metadata` those behind it that are."""

    position: int
    metadata: str


class Ledger:
    """Offsets in the order they were seen. They need not follow each other without a gap."""

    def __init__(self, position: int = 0, done: Iterable[int] = ()) -> None:
        self.next = position
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._known = set(done)

    def see(self, offset: int) -> bool:
        """A record was fetched; False if it is done already."""
        self.next = offset + 1
        self._open.append(offset)
        if offset not in self._known:
            return True
        self._known.discard(offset)
        self._done.add(offset)
        return False

    def finish(self, offset: int) -> None:
        self._done.add(offset)

    def reopen(self, offset: int) -> None:
        self._done.discard(offset)

    def mark(self) -> Mark:
        """What to commit now."""
        for finished, offset in enumerate(self._open):
            if offset not in self._done:
                ahead = self._known if finished == len(self._done) else self._known | self._done
                return Mark(offset, _write(one for one in ahead if one > offset))
        return Mark(self.next, _write(self._known))

    def committed(self, mark: Mark) -> None:
        """Forget what is before a mark that was committed."""
        while self._open and self._open[0] < mark.position:
            self._done.discard(self._open.popleft())


def _write(offsets: Iterable[int]) -> str:
    written, length = list[str](), len(_PREFIX)
    for first, last in _spans(sorted(offsets)):
        span = str(first) if first == last else f"{first}-{last}"
        length += len(span) + 1
        if length > _LONGEST:
            break
        written.append(span)
    return _PREFIX + ",".join(written) if written else ""


def _spans(offsets: list[int]) -> Iterator[tuple[int, int]]:
    first = last = -2
    for one in offsets:
        if one != last + 1:
            if first >= 0:
                yield first, last
            first = one
        last = one
    if first >= 0:
        yield first, last


def read(metadata: str | None) -> set[int]:
    """The offsets that metadata names; none where another program wrote it."""
    if not metadata or not metadata.startswith(_PREFIX):
        return set()
    found: set[int] = set()
    for part in metadata.removeprefix(_PREFIX).split(","):
        span = _SPAN.fullmatch(part)
        if span is not None:
            found.update(range(int(span[1]), int(span[2] or span[1]) + 1))
    return found
