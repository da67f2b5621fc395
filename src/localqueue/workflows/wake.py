"""Who is woken by a run: its workers and those who wait for it, in other processes too."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from localqueue.policies._wakeup import Wakeup
from localqueue.queue.desk.arrivals import Ready
from localqueue.stores.port import QueueStore
from localqueue.stores.url import absolute
from localqueue.workflows.records import STATE

_NO_RUN = "run"
_lock = threading.Lock()


def run_name(run_id: str) -> str:
    """What those listen to who wait for a run to end, in the place of a queue."""
    return f"run\x1f{run_id}"


def notification_of(store: QueueStore) -> Any:
    """What wakes other processes. Servers do so themselves; a file has nobody to do it, so processes tell each other
    over local sockets. None where that can not be, and for memory: then waiting is left to the store."""
    url = store.url
    if not url.startswith(("sqlite:", "lmdb:")) or not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        return None
    with _lock:
        return _socket_notification(_channel(url, store.namespace))


@lru_cache(256)
def _channel(url: str, namespace: str) -> str:
    """The same for all processes that have the file, whatever directories they are in."""
    return f"{absolute(url)}#{namespace}"


@lru_cache(256)
def _socket_notification(channel: str) -> Any:
    from localqueue.notifications import SocketNotification

    return SocketNotification(channel=channel)


def wake(store: QueueStore, queues: Iterable[str]) -> None:
    """Tell those who wait at these queues, in this process and in others."""
    policy = notification_of(store)
    if policy is not None:
        policy.notify_many([Ready(queue) for queue in dict.fromkeys(queues)])


@lru_cache(256)
def _stay(policy: Any) -> None:
    """Have a process that waits for a run keep its socket: to open and close one takes longer than a short run."""
    policy.attach(_nobody, _NO_RUN)


def _nobody() -> None:
    """Is told, and does nothing."""


class Rest:
    """Waits for a run to change: by its notification where there is one, and else by the store."""

    def __init__(self, store: QueueStore, run_id: str) -> None:
        self._name = run_name(run_id)
        self._policy = notification_of(store)
        self._wakeup = Wakeup()
        self._waiter = None
        if self._policy is None:
            self._waiter = store.listen_records(STATE, [run_id])
        else:
            _stay(self._policy)
            self._policy.attach(self._wakeup.set, self._name)

    def __call__(self, seconds: float) -> bool:
        if self._waiter is not None:
            return self._waiter.wait(seconds)
        woken = bool(self._wakeup.wait(seconds))
        self._wakeup.clear()
        return woken

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waiter is not None:
            self._waiter.close()
        else:
            self._policy.detach(self._wakeup.set, self._name)
