"""localqueue with a function as its work: a plain Worker with a handler, or Tasks, each with or without results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localqueue import PersistentQueue, Tasks, Worker, open_store

KEPT = 3600.0


def measure_text(number: int, text: str) -> int:
    return number + len(text)


def handle(item: dict[str, Any]) -> int:
    return measure_text(item["number"], item["text"])


class Plain:
    """What somebody writes who has a queue and no tasks."""

    def __init__(self, store: Any, keep: float | None) -> None:
        self.queue: PersistentQueue[Any] = PersistentQueue("bench", store=store, keep_results=keep)

    def enqueue(self, number: int, text: str) -> Any:
        return self.queue.put({"number": number, "text": text})

    def work(self, concurrency: int) -> int:
        return Worker(self.queue, handle, concurrency=concurrency).run_until_empty().acked

    def result(self, job: Any) -> Any:
        return self.queue.result(job, timeout=30.0)

    def close(self) -> None:
        self.queue.close()


class AsTasks:
    def __init__(self, store: Any, keep: float | None) -> None:
        self.tasks = Tasks(store, keep_results=keep)
        self.enqueue = self.tasks.task(measure_text).enqueue

    def work(self, concurrency: int) -> int:
        return self.tasks.worker(concurrency=concurrency).run_until_empty().acked

    def result(self, job: Any) -> Any:
        return job.result(timeout=30.0)

    def close(self) -> None:
        self.tasks.close()


class Adapter:
    def __init__(self, path: str, *, tasks: bool, results: bool, concurrency: int) -> None:
        self.store = open_store(path if "://" in path else f"sqlite:///{Path(path) / 'queue.sqlite3'}")
        self.system = (AsTasks if tasks else Plain)(self.store, KEPT if results else None)
        self.concurrency = concurrency
        self.jobs: list[tuple[Any, int]] = []
        if results:
            self.fetch = self._fetch

    def put(self, item: dict[str, Any]) -> None:
        number, text = item["n"], item["path"]
        self.jobs.append((self.system.enqueue(number, text), number + len(text)))

    def work(self, n: int) -> None:
        done = self.system.work(self.concurrency)
        if done != n:
            raise RuntimeError(f"{done} where {n} jobs were to be done")

    def _fetch(self) -> list[bool]:
        return [self.system.result(job) == expected for job, expected in self.jobs]

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.system.close()
        self.store.close()
