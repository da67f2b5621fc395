"""What the author of an attempt, idempotency or result store hands to its contract suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from localqueue.contracts.harness import StoreHarness


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterHarness:
    """How the suite opens the adapter under test. Every call of `open` opens the same data.

    `opener` ("module:callable", called as `callable(location)`) and `location` say the same to another process. Only
    the suites named `Shared...` need them.
    """

    open: Callable[[], Any]
    opener: str = ""
    location: str = ""

    def context(self) -> ForkServerContext:
        return self._processes().context()

    def in_process(self, work: Callable[..., Any], *arguments: Any) -> BaseProcess:
        """Start `work(adapter, *arguments)` in a process of its own. `work` is a module-level function."""
        return self._processes().in_process(work, *arguments)

    def _processes(self) -> StoreHarness:
        return StoreHarness(open=self.open, open_copy=_no_copies, opener=self.opener, location=self.location)


def _no_copies(path: str) -> Any:
    raise NotImplementedError("adapters have no backups")


class AdapterContract:
    """The fixtures of a contract suite. Subclass a suite as `Test...` and provide the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> AdapterHarness:
        raise NotImplementedError(f"{type(self).__name__} provides the fixture `harness`")

    @pytest.fixture
    def open_store(self, harness: AdapterHarness) -> Iterator[Callable[[], Any]]:
        """Opens the adapter as often as a test wants, and closes what it opened."""
        opened: list[Any] = []

        def open_store() -> Any:
            opened.append(harness.open())
            return opened[-1]

        yield open_store
        for store in opened:
            close = getattr(store, "close", None)
            if close is not None:
                close()

    @pytest.fixture
    def store(self, open_store: Callable[[], Any]) -> Any:
        return open_store()


#: Keys that a store must hold and tell apart.
AWKWARD_KEYS = (
    "a",
    "A",
    "a:b/c d",
    "a%",
    "a_",
    "schlüssel-\N{SNOWMAN}",
    "k" * 600,
    "k" * 599 + "l",
    "\N{GRINNING FACE}" * 200,
)
