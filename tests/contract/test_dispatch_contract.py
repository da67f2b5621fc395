"""Every dispatcher of this package keeps the contract."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue import CallbackDispatcher, ThreadedDispatcher
from localqueue.contracts import DispatchContract, LeasingDispatchContract
from localqueue.contracts.dispatchers import MakeDispatcher
from localqueue.dispatch import WorkerPoolDispatcher


class TestCallback(DispatchContract):
    @pytest.fixture
    def make_dispatcher(self) -> MakeDispatcher:
        return lambda *handlers: CallbackDispatcher(handlers)


@pytest.fixture(params=[None, 10], ids=["default buffer", "buffer of 10"])
def maxsize(request: pytest.FixtureRequest) -> Any:
    return request.param


class TestThreaded(LeasingDispatchContract):
    @pytest.fixture
    def make_dispatcher(self, maxsize: int | None) -> MakeDispatcher:
        return lambda *handlers: ThreadedDispatcher(handlers, maxsize=maxsize)


class TestWorkerPool(LeasingDispatchContract):
    @pytest.fixture
    def make_dispatcher(self, maxsize: int | None) -> MakeDispatcher:
        return lambda *handlers: WorkerPoolDispatcher(handlers, workers=3, maxsize=maxsize)
