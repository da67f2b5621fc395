"""How an archive of the journal lies in its folder, and which of its files count.

    _localqueue.json                                 what this is an archive of
    span=<first>-<last>-<mark>/date=2026-01-31/…     the entries of that range of numbers, first and last included
    _writing/…                                       what is not there yet, or never will be
    _commits/span=<first>-<last>-<mark>              layout 2: that span is there

In layout 1 an increment is written below `_writing` and renamed: that is its commit. Where a folder can not be renamed
in one step, as on an object store, the layout is 2: an increment is written where it stays, and its commit is a small
file, made by one request. A merge writes the entries of several spans
under the name of one that contains them, and removes those afterwards. Whoever reads takes the biggest spans and of
each only what no other has, so it does not matter where any of this was interrupted, nor that two ran at a time. The
mark is random: no two writers ever rename to the same name. The journal never changes an entry, hence spans that
overlap agree.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

MARKER = "_localqueue.json"
WRITING = "_writing"
COMMITS = "_commits"
#: How long somebody may take to write one increment before it is taken for dead and its leavings are swept.
ABANDONED = 86_400.0

_NAME = re.compile(r"span=(\d+)-(\d+)-([0-9a-f]+)")
_MARK = re.compile(r"[0-9a-f]{16}")


class Span(NamedTuple):
    """A range of journal numbers that a folder holds."""

    first: int
    last: int
    name: str
    size: int = 0


class Part(NamedTuple):
    """What is to be read of a span: its entries behind `after`."""

    span: Span
    after: int

    @property
    def whole(self) -> bool:
        return self.after < self.span.first


def new_mark() -> str:
    """What only this writer's folder is called by; it begins with the time, in seconds."""
    return f"{int(time.time()):08x}{uuid.uuid4().hex[:8]}"


def is_abandoned(name: str, now: float | None = None) -> bool:
    """Whether a folder with a mark was begun so long ago that its writer must be dead."""
    mark = name.rpartition("-")[2]
    return bool(_MARK.fullmatch(mark)) and int(mark[:8], 16) < (now or time.time()) - ABANDONED


def span_name(first: int, last: int, mark: str) -> str:
    """The folder of a range; names sort as the ranges do."""
    if not 0 < first <= last:
        raise ValueError(f"a span is from 1 or more up to its end, not {first} to {last}")
    return f"span={first:019d}-{last:019d}-{mark}"


def span_of(name: str, size: int = 0) -> Span | None:
    """The range that a folder holds, None when its name says nothing of the kind."""
    found = _NAME.fullmatch(name)
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        return None
    return Span(int(found[1]), int(found[2]), name, size)


def cover(spans: Iterable[Span]) -> list[Part]:
    """The parts that together hold every archived entry exactly once, in order."""
    parts: list[Part] = []
    reach = 0
    for span in sorted(spans, key=lambda span: (span.first, -span.last, span.name)):
        if span.last > reach:
            parts.append(Part(span, max(reach, span.first - 1)))
            reach = span.last
    return parts


def superseded(spans: Sequence[Span]) -> list[Span]:
    """Spans that nobody reads any more, because others hold all that is in them."""
    read = {part.span.name for part in cover(spans)}
    return [span for span in spans if span.name not in read]


def archived_to(spans: Iterable[Span]) -> int:
    """The number of the last entry that is archived, 0 when none is."""
    return max((span.last for span in spans), default=0)


def merges(parts: Sequence[Part], target: int) -> list[list[Part]]:
    """Neighbours to be written as one, so that spans get to about `target` bytes and are then left alone."""
    groups: list[list[Part]] = []
    size = 0
    for part in parts:
        if part.span.size >= target:
            size = target  # it is big enough, and what follows begins anew
            continue
        if not groups or size >= target or groups[-1][-1].span.last + 1 < part.span.first:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.span.size
    return [group for group in groups if len(group) > 1]


_PLAIN = (str, int, type(None))


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What a folder is an archive of. `layout` is the version of what this module describes."""

    kind: str
    format: str
    view: str
    store: str
    namespace: str
    queue: str | None = None
    partition_by: str | None = None
    layout: int = 1

    def text(self, indent: int | None = 2) -> str:
        return json.dumps({"localqueue": "archive", **asdict(self)}, indent=indent) + ("\n" if indent else "")

    @staticmethod
    def of(text: str) -> Marker | None:
        """The marker that a text is, None when it is something else."""
        try:
            values = json.loads(text)
            if values.pop("localqueue") == "archive" and all(type(one) in _PLAIN for one in values.values()):
                return Marker(**values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        return None


def disagreement(found: Marker, wanted: Marker, *, place: str = "path", note: str = MARKER) -> str | None:
    """What keeps a folder or table from taking another increment, as a sentence; None when nothing does."""
    for name, what in (
        ("kind", "kind"), ("format", "format"), ("view", "view"), ("store", "store"),
        ("namespace", "namespace"), ("queue", "queue"), ("partition_by", "partition_by"),
    ):  # fmt: skip
        there, here = getattr(found, name), getattr(wanted, name)
        if there != here:
            hint = f", or change it in its {note} when the store has moved" if name == "store" else ""
            return f"it is an archive with {what} {there!r} and not {here!r}: give another {place}{hint}"
    return None
