"""Names as they are drawn: how much room they take, and how they fit into less."""

from __future__ import annotations

import unicodedata

_CUT = "…"


def cells_of(text: str) -> int:
    """How many columns a text takes where every letter is as wide; those of East Asia take two."""
    if text.isascii():
        return len(text)
    return sum(_cells(one) for one in text)


def shortened(text: str, most: int) -> str:
    """The text in at most so many columns, with an ellipsis where it was cut."""
    if cells_of(text) <= most:
        return text
    room, kept = most - 1, []
    for one in text:
        room -= _cells(one)
        if room < 0:
            break
        kept.append(one)
    return "".join(kept) + _CUT


def padded(text: str, cells: int) -> str:
    """The text followed by as many blanks as are left of so many columns."""
    return text + " " * (cells - cells_of(text))


def in_one_line(text: str) -> str:
    """What can be printed of a text, without line ends and what would steer a terminal."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))


def _cells(one: str) -> int:
    if unicodedata.combining(one):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1
