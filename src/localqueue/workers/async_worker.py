"""`AsyncWorker`: handlers are tasks of the running event loop, and the loop never touches the store.

Two threads do that. The pump leases, settles and drives the life of each message; a call of the user's is spawned on
the loop and comes back through the pump's inbox. The watcher waits for work when the pump found none. The loop and
the watcher tell the pump by ringing a bell, which never blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from localqueue.limits import Limits
from localqueue.policies import NotificationPolicy
from localqueue.worker_config import PersistentWorkerConfig, WorkerOptions
from localqueue.workers.core import WorkerCore
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.outcome import Settled
from localqueue.workers.pump import Pump
from localqueue.workers.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")


class AsyncWorker(WorkerCore):
    """Runs `await handler(message.value)` for up to `concurrency` messages of a queue at a time.

    It promises what `Worker` promises. `timeout` cancels a handler, and so does the loss of its lease. A handler that
    is not a coroutine function runs in a thread. `prefetch` messages are leased beyond those that run.
    """

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        *,
        concurrency: int = 10,
        prefetch: int = 1,
        config: PersistentWorkerConfig | None = None,
        worker_id: str | None = None,
        timeout: float | None = None,
        shutdown_timeout: float | None = None,
        notification_policy: NotificationPolicy | None = None,
        on_settled: Callable[[Settled], object] | None = None,
        limits: Limits | None = None,
        **settings: Unpack[WorkerOptions],
    ) -> None:
        super().__init__(
            queue,
            handler,
            concurrency=concurrency,
            prefetch=prefetch,
            config=config,
            worker_id=worker_id,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
            notification_policy=notification_policy,
            on_settled=on_settled,
            limits=limits,
            overrides=settings,
        )
        self._pump: Pump | None = None

    async def run(self, *, signals: bool = True) -> WorkerCounts:
        """Work until stopped. In the main thread's loop it handles SIGTERM and SIGINT, unless `signals` is False."""
        return await self._work(Pump(self, asyncio.get_running_loop()), signals)

    async def run_until_empty(self, *, wait_for_delayed: bool = False, signals: bool = True) -> WorkerCounts:
        """Work until nothing is ready and nothing runs; with `wait_for_delayed` also until nothing is delayed."""
        pump = Pump(self, asyncio.get_running_loop(), until_empty=True, wait_for_delayed=wait_for_delayed)
        return await self._work(pump, signals)

    def stop(self) -> None:
        """Ask the worker to finish; returns at once. May be called from any thread, and from a handler."""
        self.stopping.set()
        if self._pump is not None:
            self._pump.ring()

    async def _work(self, pump: Pump, signals: bool) -> WorkerCounts:
        with self._one_run(), self._signals(pump) if signals else contextlib.nullcontext():
            self._pump = pump
            threading.Thread(target=pump.run, name=f"{self.worker_id}-pump", daemon=True).start()
            try:
                await self._ended(pump)
            finally:
                self._pump = None
        if pump.failure is not None:
            pump.cancel_all()
            raise pump.failure
        return self.counts

    async def _ended(self, pump: Pump) -> None:
        """Wait for the pump. Cancelled, wait all the same: until it has given the messages back."""
        cancelled: asyncio.CancelledError | None = None
        while not pump.ended.is_set():
            try:
                await pump.ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop()
                pump.cancel_all()
        if cancelled is not None:
            raise cancelled

    @contextlib.contextmanager
    def _signals(self, pump: Pump) -> Any:
        loop = asyncio.get_running_loop()

        def on_signal() -> None:
            if self.stopping.is_set():
                pump.cut_short()
            self.stop()

        earlier: dict[signal.Signals, Any] = {}
        for number in STOP_SIGNALS:
            # Only the main thread's loop may handle signals.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                known = signal.getsignal(number)
                loop.add_signal_handler(number, on_signal)
                earlier[number] = known
        try:
            yield
        finally:
            for number, handler in earlier.items():
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
