"""Running the schedulers of many queues in one process."""

from __future__ import annotations

import threading
from typing import Any

from localqueue.cli.schedule import queues_with_schedules
from localqueue.cli.signals import stop_by_signal
from localqueue.message import QueueMessage
from localqueue.policies import PriorityOrdering
from localqueue.queue import PersistentQueue
from localqueue.schedules import Scheduler
from localqueue.stores.port import QueueStore

_LOOK_FOR_QUEUES = 2.0


class Schedulers:
    """One scheduler for each of the given queues, or for each that has schedules, also those that get them later."""

    def __init__(self, store: QueueStore, queues: list[str] | None) -> None:
        self._store = store
        self._queues = queues
        self._running: dict[str, tuple[Scheduler, threading.Thread]] = {}
        for name in queues or ():
            self._scheduler(name)  # a wrong name is found before anything runs

    def tick(self) -> list[QueueMessage[Any]]:
        """Put what is due now."""
        return [message for name in self._wanted() for message in self._scheduler(name).tick()]

    def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        with stop_by_signal() as stop:
            try:
                while not stop.asked:
                    for name in self._wanted():
                        self._start(name)
                    stop.wait(None if self._queues else _LOOK_FOR_QUEUES)
            finally:
                for scheduler, _ in self._running.values():
                    scheduler.stop()
                for _, thread in self._running.values():
                    thread.join()

    def _wanted(self) -> list[str]:
        return self._queues or queues_with_schedules(self._store)

    def _scheduler(self, name: str) -> Scheduler:
        # With this ordering a message may have a priority or none.
        return Scheduler(PersistentQueue[Any](name, store=self._store, ordering_policy=PriorityOrdering()))

    def _start(self, name: str) -> None:
        if name not in self._running:
            scheduler = self._scheduler(name)
            thread = threading.Thread(target=scheduler.run, name=f"schedules of {name}", daemon=True)
            self._running[name] = (scheduler, thread)
            thread.start()
