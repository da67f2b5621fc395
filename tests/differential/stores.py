"""Where the stores of a round are."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localqueue.stores.port import QueueStore
from tests.servers import Postgres, Redis, shared
from tests.stores import SERVERS, new_place

KINDS = ("memory", "lmdb", "postgres", "redis", "mongodb")


def quick_servers(kinds: Sequence[str]) -> None:
    """Servers that do not wait for the disk: nothing of a round has to outlive it."""
    if "postgres" in kinds:
        shared(_Postgres)
    if "redis" in kinds:
        shared(_Redis)


class _Postgres(Postgres):
    def __init__(self) -> None:
        super().__init__("fsync=off", "synchronous_commit=off")


class _Redis(Redis):
    def __init__(self) -> None:
        super().__init__("--appendonly", "yes", "--appendfsync", "no")


def openers(kinds: Sequence[str], folder: Path) -> dict[str, Callable[..., QueueStore]]:
    """What opens, each time it is called, an empty namespace of each kind of store.

    By their clock no call takes any time, so that they renew no lease because its claim took long.
    """
    return {kind: _opener(kind, folder) for kind in kinds}


def _opener(kind: str, folder: Path) -> Callable[..., QueueStore]:
    own = folder / secrets.token_hex(8)

    def opened(**options: Any) -> QueueStore:
        if kind not in SERVERS:
            shutil.rmtree(own, ignore_errors=True)  # the round before is over
        here = own / secrets.token_hex(8)
        here.mkdir(parents=True)
        store: QueueStore = new_place(kind, here).open(**options)
        store._is_prompt = lambda began, lease: True  # type: ignore[attr-defined]
        return store

    return opened
