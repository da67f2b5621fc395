"""Carrying open stores over a fork.

A store that can be carried holds still while the process forks; the child closes everything it inherited before it
opens anything of its own.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def hold_for_fork(self) -> None: ...
    def go_on_after_fork(self) -> None: ...
    def close_in_child(self) -> None: ...
    def reopen_in_child(self) -> None: ...


_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_held: list[Forkable] = []


def track(store: Forkable) -> None:
    _open.add(store)


def forget(store: Forkable) -> None:
    _open.discard(store)


def _before() -> None:
    for store in sorted(_open, key=id):
        store.hold_for_fork()
        _held.append(store)


def _in_parent() -> None:
    while _held:
        _held.pop().go_on_after_fork()


def _in_child() -> None:
    for store in _held:
        store.close_in_child()
    while _held:
        _held.pop().reopen_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
