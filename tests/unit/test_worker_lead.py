"""Of the threads of a worker that have nothing to do, one waits for work."""

from __future__ import annotations

import threading

import pytest

from localqueue import InProcessNotification, PersistentQueue
from localqueue.stores.port import LeaseRequest, StoredMessage
from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.workers import Worker

THREADS, MESSAGES, PATIENCE = 8, 20, 20.0


def test_a_message_wakes_one_thread_and_not_all_to_find_it_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with MemoryQueueStore() as store:
        # Who is told by a policy asks the store at once: so everybody who is woken is counted.
        queue = PersistentQueue[int]("jobs", store=store, notification_policy=InProcessNotification())
        asked, all_idle, handled = [0], threading.Event(), threading.Semaphore(0)
        lease, counting = store.lease, threading.Lock()

        def counted(request: LeaseRequest) -> list[StoredMessage]:
            with counting:
                asked[0] += 1
                if asked[0] >= THREADS:
                    all_idle.set()
            return lease(request)

        monkeypatch.setattr(store, "lease", counted)
        worker = Worker(queue, lambda value: handled.release(), concurrency=THREADS)
        running = threading.Thread(target=lambda: worker.run(signals=False))
        running.start()
        try:
            assert all_idle.wait(PATIENCE)
            before = asked[0]
            for n in range(MESSAGES):
                queue.put(n)
                assert handled.acquire(timeout=PATIENCE)
        finally:
            worker.stop()
            running.join(PATIENCE)
        assert worker.counts.acked == MESSAGES
        # The one that waited asks, and at times another one that looked before the message was taken.
        assert asked[0] - before <= 2 * MESSAGES
