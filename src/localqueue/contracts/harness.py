"""What a store author hands to the contract suite: how to open the store, here and in another process."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from localqueue.stores.port import QueueStore


class FakeClock:
    """A clock that stands still until a test moves it, in either direction."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def jump_back(self, seconds: float) -> None:
        self._now -= seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHarness:
    """How the suite opens the store under test.

    `open` takes any of `namespace`, `clock`, `durability` and `read_only` as keywords; every call opens the same data.
    `opener` and `location` say the same to another process: `opener` is "module:callable", called as
    `callable(location)`. `open_copy` opens what `backup(path)` wrote. `batch` is how many small messages one batch of
    the store holds at least, where that depends on the server the tests run against.
    """

    open: Callable[..., QueueStore]
    open_copy: Callable[[str], QueueStore]
    opener: str = ""
    location: str = ""
    batch: int = 20_000

    def context(self) -> ForkServerContext:
        """Where the events, barriers and queues come from that the processes of `in_process` share."""
        return multiprocessing.get_context("forkserver")

    def in_process(self, work: Callable[..., Any], *arguments: Any) -> BaseProcess:
        """Start `work(store, *arguments)` in a process of its own. `work` is a module-level function."""
        assert self.opener, "a store that processes share needs opener= and location= in its StoreHarness"
        process = self.context().Process(target=_run, args=(self.opener, self.location, work, arguments), daemon=True)
        process.start()
        return process


def _run(opener: str, location: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    module, _, name = opener.partition(":")
    store = getattr(importlib.import_module(module), name)(location)
    try:
        work(store, *arguments)
    finally:
        store.close()
