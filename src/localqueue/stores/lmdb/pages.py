"""The pages of an environment as they lie in its file, read before LMDB maps it.

LMDB believes what its two meta pages say and follows it through the map: a page that is not in the file kills the
process (SIGBUS), and so may a meta page that is not LMDB's. So both are looked at first. Damage inside the other pages
can not be found without reading all of them, and is left to LMDB.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from localqueue.errors import QueueStoreCorruptError, QueueStoreVersionError

_MAGIC = 0xBEEFC0DE
_VERSION = 1
_NO_PAGE = 2**64 - 1

_HEADER = struct.Struct("=QHHHH")  # number, padding, kind, and where free space begins and ends
_META = struct.Struct("=IIQQ")  # magic, version, address and size of the map
_TREE = struct.Struct("=IHHQQQQQ")  # page size or padding, flags, depth, pages of each kind, entries, root
_END = struct.Struct("=QQ")  # last page, transaction
_NODE = struct.Struct("=HHHH")  # what lies below (three pieces), length of the key
_NUMBER = struct.Struct("=Q")
_BRANCH, _IS_META = 0x01, 0x08
_BIG = 0x01
_INTEGER_KEY = 0x08
_DEEPEST = 32


class _Meta(NamedTuple):
    page_size: int
    free: int
    last: int
    transaction: int


class _Damaged(Exception):
    """What is wrong with the file."""


def require_whole(path: str) -> None:
    """Refuse a file that LMDB must not map; one that is empty or not there LMDB makes anew."""
    if sys.maxsize < 2**32:
        return  # numbers in the file are as wide as the machine's
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _Damaged("it is no file")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size:
                _check(file)
    except FileNotFoundError:
        return
    except _Damaged as error:
        raise QueueStoreCorruptError(
            f"LMDB queue store at {os.path.dirname(path)!r} is damaged or not an LMDB store: {error}; "
            "restore a backup or move it away",
            path=os.path.dirname(path),
        ) from None


def _check(file: BinaryIO) -> None:
    first = _meta(file, 0, 0)
    metas = (first, _meta(file, 1, first.page_size))
    if metas[0].page_size != metas[1].page_size:
        raise _Damaged("its two meta pages disagree")
    newest = max(metas, key=lambda meta: meta.transaction)
    there = os.fstat(file.fileno()).st_size // newest.page_size
    missing = newest.last + 1 - there
    # Pages that were freed before they were written may be missing at the end.
    if missing > 0 and len({page for page in _free(file, newest) if there <= page <= newest.last}) < missing:
        raise _Damaged(f"it was cut, {missing} pages at its end are missing")


def _meta(file: BinaryIO, number: int, offset: int) -> _Meta:
    page = _read(file, offset, _HEADER.size + _META.size + 2 * _TREE.size + _END.size)
    at, _, kind, _, _ = _HEADER.unpack_from(page)
    magic, version, _, _ = _META.unpack_from(page, _HEADER.size)
    if at != number or not kind & _IS_META or magic != _MAGIC:
        raise _Damaged(f"meta page {number} is not one of LMDB")
    if version != _VERSION:
        path = os.path.dirname(str(file.name))
        raise QueueStoreVersionError(
            f"LMDB queue store at {path!r} was written by another version of LMDB (format {version})", path=path
        )
    free, main = (_TREE.unpack_from(page, _HEADER.size + _META.size + n * _TREE.size) for n in (0, 1))
    last, transaction = _END.unpack_from(page, _HEADER.size + _META.size + 2 * _TREE.size)
    sound = (
        free[0] in (1 << n for n in range(9, 17))
        and free[1] == _INTEGER_KEY
        and last >= 1
        and all(tree[2] <= _DEEPEST and (tree[7] == _NO_PAGE or 2 <= tree[7] <= last) for tree in (free, main))
    )
    if not sound:
        raise _Damaged(f"meta page {number} says what can not be")
    return _Meta(free[0], free[7], last, transaction)


def _free(file: BinaryIO, meta: _Meta) -> Iterator[int]:
    """The numbers of free pages: a tree whose values are lists of them, each with its length before it."""
    below = [] if meta.free == _NO_PAGE else [meta.free]
    seen = set()
    while below:
        number = below.pop()
        page = _read(file, number * meta.page_size, meta.page_size)
        _, _, kind, lower, _ = _HEADER.unpack_from(page)
        if number in seen or not _HEADER.size <= lower <= meta.page_size:
            raise _Damaged("its list of free pages can not be read")
        seen.add(number)
        for (at,) in struct.iter_unpack("=H", page[_HEADER.size : lower - lower % 2]):
            if at + _NODE.size > meta.page_size:
                raise _Damaged("its list of free pages can not be read")
            low, high, top, key = _NODE.unpack_from(page, at)
            if kind & _BRANCH:
                below.append(low | high << 16 | top << 32)
                continue
            data = page[at + _NODE.size + key :][: low | high << 16]
            if top & _BIG:  # they lie on pages of their own
                start = int.from_bytes(page[at + _NODE.size + key :][: _NUMBER.size], sys.byteorder) * meta.page_size
                data = _read(file, start + _HEADER.size, low | high << 16)
            yield from (one for (one,) in _NUMBER.iter_unpack(data[_NUMBER.size : len(data) - len(data) % 8]))


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    try:
        found = os.pread(file.fileno(), size, offset)
    except (OverflowError, OSError):
        found = b""
    if len(found) < size:
        raise _Damaged("it was cut")
    return found
