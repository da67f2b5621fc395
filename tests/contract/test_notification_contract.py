"""Every notification of this package keeps the contract, and so does one that only has what the protocol asks for."""

from __future__ import annotations

import functools
import signal
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import (
    AsyncNotification,
    CallbackNotification,
    InProcessNotification,
    NoNotification,
)
from localqueue.contracts import (
    AsyncNotificationContract,
    CrossProcessNotificationContract,
    NotificationContract,
    WaitableNotificationContract,
)
from localqueue.notifications import SignalNotification, SocketNotification


class TestNoNotification(NotificationContract):
    @pytest.fixture
    def policy(self) -> NoNotification:
        return NoNotification()


class TestCallback(NotificationContract):
    @pytest.fixture
    def policy(self) -> CallbackNotification:
        return CallbackNotification(lambda message: None)


class TestInProcess(WaitableNotificationContract):
    @pytest.fixture
    def policy(self) -> InProcessNotification:
        return InProcessNotification()


class TestAsyncio(AsyncNotificationContract):
    @pytest.fixture
    def policy(self) -> AsyncNotification:
        return AsyncNotification()


class _Bare:
    """What somebody else might write: the protocol, `wait` and `clear`, and nothing to attach to."""

    notifies = True
    notifies_on_put = True

    def __init__(self) -> None:
        self._event = threading.Event()

    def notify(self, message: Any) -> None:
        self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._event.wait(timeout)

    def clear(self) -> None:
        self._event.clear()

    def as_dict(self) -> dict[str, Any]:
        return {"notifies": True, "notifies_on_put": True}


class TestBareWaitable(WaitableNotificationContract):
    @pytest.fixture
    def policy(self) -> _Bare:
        return _Bare()


class _BareAsync:
    notifies = True
    notifies_on_put = True

    def __init__(self) -> None:
        self._inner = AsyncNotification()

    def notify(self, message: Any) -> None:
        self._inner.notify(message)

    async def wait_async(self, timeout: float | None = None) -> bool:
        return await self._inner.wait_async(timeout)

    def clear(self) -> None:
        self._inner.clear()

    def as_dict(self) -> dict[str, Any]:
        return {"notifies": True, "notifies_on_put": True}


class TestBareAsync(AsyncNotificationContract):
    @pytest.fixture
    def policy(self) -> _BareAsync:
        return _BareAsync()


@pytest.fixture
def directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="lq") as made:  # the path of a socket must be short
        yield made


class TestSocket(WaitableNotificationContract):
    @pytest.fixture
    def policy(self, directory: str) -> Iterator[SocketNotification]:
        with SocketNotification(directory=directory) as policy:
            yield policy


class TestSignal(WaitableNotificationContract):
    @pytest.fixture
    def policy(self, directory: str) -> Iterator[SignalNotification]:
        with SignalNotification(directory=directory) as policy:
            policy.install()
            yield policy


class TestSocketAcrossProcesses(CrossProcessNotificationContract):
    @pytest.fixture
    def make_policy(self, directory: str) -> functools.partial[SocketNotification]:
        return functools.partial(SocketNotification, directory=directory)


class TestSignalAcrossProcesses(CrossProcessNotificationContract):
    carries_delay = False

    @pytest.fixture
    def make_policy(self, directory: str) -> functools.partial[SignalNotification]:
        return functools.partial(SignalNotification, signal.SIGUSR1, directory=directory)
