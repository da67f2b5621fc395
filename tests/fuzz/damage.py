"""Damage to files, as strategies: what a disk, a crash or another program may leave of one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hypothesis import strategies as st

Damage = Callable[[bytes], bytes]


def _cut(length: float) -> Damage:
    return lambda content: content[: int(len(content) * length)]


def _flip(places: list[tuple[float, int]]) -> Damage:
    def flipped(content: bytes) -> bytes:
        changed = bytearray(content)
        for place, bit in places:
            changed[int(len(content) * place)] ^= 1 << bit
        return bytes(changed)

    return flipped


def _overwrite(place: float, with_: bytes) -> Damage:
    def overwritten(content: bytes) -> bytes:
        at = int(len(content) * place)
        return (content[:at] + with_ + content[at + len(with_) :])[: len(content)]

    return overwritten


def _swap(one: float, other: float, size: int = 4096) -> Damage:
    """Two pages in each other's place."""

    def swapped(content: bytes) -> bytes:
        pages = [content[at : at + size] for at in range(0, len(content), size)]
        a, b = int(len(pages) * one), int(len(pages) * other)
        pages[a], pages[b] = pages[b], pages[a]
        return b"".join(pages)

    return swapped


places = st.floats(0, 1, exclude_max=True)

#: What happens to the bytes of a file. Places are fractions of its length, so that they do not depend on it.
damages: st.SearchStrategy[Damage] = st.one_of(
    st.builds(_cut, places),
    st.builds(_flip, st.lists(st.tuples(places, st.integers(0, 7)), min_size=1, max_size=8)),
    st.builds(_flip, st.lists(st.tuples(st.floats(0, 0.02), st.integers(0, 7)), min_size=1, max_size=3)),
    st.builds(_overwrite, places, st.binary(min_size=1, max_size=64)),
    st.builds(_overwrite, places, st.sampled_from([bytes(512), b"\xff" * 512, bytes(4096), b"\xff" * 4096])),
    st.builds(_swap, places, places),
)


def another_programs_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)")
        connection.execute("INSERT INTO notes (note) VALUES ('mine')")
        connection.commit()


#: What may be where a store was expected, by what it is called.
STRANGERS: dict[str, Callable[[Path], object]] = {
    "an empty file": lambda path: path.touch(),
    "a text": lambda path: path.write_text("this is no database\n" * 300),
    "a short text": lambda path: path.write_text("hello\n"),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "a database of another program": another_programs_database,
    "a directory": lambda path: path.mkdir(),
    "a directory with things in it": lambda path: (path.mkdir(), (path / "data").write_text("x")),
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to nowhere": lambda path: path.symlink_to(path.with_name("nowhere")),
    "a link to itself": lambda path: path.symlink_to(path),
}
