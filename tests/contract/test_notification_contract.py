"""Every notification of this package keeps the contract, and so does one that only has what the protocol asks for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localqueue import (
    AsyncNotification,
    CallbackNotification,
    InProcessNotification,
    NoNotification,
)
from localqueue.contracts import AsyncNotificationContract, NotificationContract, WaitableNotificationContract


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
