"""Clients that also order work of workers, and are such workers: those of the package, with handlers that fail."""

from __future__ import annotations

from typing import Any

from tenacity import wait_none

from localqueue import PersistentQueue, QueueMessage, Worker, current_job
from localqueue.policies import EffectivelyOnceDelivery, ReturnStoredResult
from tests.chaos.consumer import Consumer
from tests.chaos.facts import EFFECTS
from tests.chaos.history import Operation, Put, Stored
from tests.chaos.producer import JOBS
from tests.chaos.verdicts.delivery import effect_of

_LEASE = 1.0
_TRIES = 4


class Staff(Consumer):
    def order_job(self) -> None:
        """Work that is to be done once for its key. The work of some keys fails whenever it is tried."""
        put = Put(JOBS, self.name(JOBS), dedupe_key=f"j{self.chance.randrange(60)}")

        def call() -> QueueMessage[str]:
            return self._jobs().put(put.name, dedupe_key=put.dedupe_key)

        def hear(one: Operation, message: QueueMessage[str]) -> None:
            stored = message.value == put.name
            one.stored = (Stored("stored", message.id) if stored else Stored("duplicate", "", message.value),)

        self.ask("order_job", call, hear=hear, puts=(put,))

    def put_poison(self) -> None:
        """Bytes that are not what their codec says."""
        put = Put(JOBS, self.name(JOBS))
        self.ask("put_one", lambda: self.store.put_one(JOBS, put.name, "json"), puts=(put,))

    def work_jobs(self) -> int:
        """Work until nothing is left to do; how many messages were settled."""
        done = [0]

        def work() -> None:
            effects: PersistentQueue[str] = PersistentQueue(EFFECTS, store=self.store)
            worker = Worker(
                self._jobs(),
                lambda name: self._handle(effects),
                concurrency=2,
                worker_id=self.who,
                max_tries=_TRIES,
                wait=wait_none(),
                on_settled=lambda settled: done.append(1),
            )
            worker.run_until_empty(signals=False)

        self.ask("work_jobs", work)
        return len(done) - 1

    def _handle(self, effects: PersistentQueue[str]) -> None:
        key = current_job().message.dedupe_key or ""
        if key.endswith("7") or self.chance.random() < 0.1:
            raise ValueError("x" * self.chance.choice((10, 50_000)))
        current_job().put(effect_of(self.namespace, key), to=effects)

    def _jobs(self) -> PersistentQueue[Any]:
        delivery = EffectivelyOnceDelivery(result_policy=ReturnStoredResult())
        return PersistentQueue(JOBS, store=self.store, lease_timeout=_LEASE, delivery_policy=delivery)

    def empty(self, queue: str) -> int | None:
        return self.work_jobs() if queue == JOBS else super().empty(queue)
