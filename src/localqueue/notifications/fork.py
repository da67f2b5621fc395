"""The child of a fork: it has the memory of its parent, and neither its threads nor the right to its connections."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def abandon(self) -> None:
        """Begin anew, without a word to anybody the parent talks to; a lock may have been held."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def heed_forks(one: Forkable) -> None:
    """Have `abandon` called in every child, as long as somebody uses the object."""
    _known.add(one)


def _in_child() -> None:
    for one in list(_known):
        one.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
