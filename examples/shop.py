"""A shop's evening: orders come in, workers charge and ship them, services fail now and then.

It makes a realistic history: orders arrive in waves, four worker processes handle two queues, a payment service that
is slow at times, a warehouse that does not answer for a while, and orders that no retry can save. The journal of the
store has all of it; `examples/pipeline.py` analyses it with Spark.
"""

from __future__ import annotations

import logging
import multiprocessing
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tenacity import wait_exponential_jitter

from localqueue import PersistentQueue, SQLiteQueueStore, Worker, current_job

CITIES = ["Lisbon", "Oslo", "Kyoto", "Lima", "Accra", "Perth", "Quito", "Turin"]
PRODUCTS = ["lamp", "chair", "kettle", "rug", "clock", "shelf"]
SECONDS = 20.0
WORKERS = 4


def order(number: int, rng: random.Random) -> dict[str, Any]:
    return {
        "order_id": number,
        "customer": f"customer-{int(rng.paretovariate(1.2)) % 400}",
        "city": rng.choice(CITIES),
        "product": rng.choice(PRODUCTS),
        "amount": round(rng.lognormvariate(3.5, 0.8), 2),
    }


def charge(value: dict[str, Any], shipping: PersistentQueue[Any]) -> None:
    """Charge a card and have the parcel sent; both in one commit with the ack."""
    rng = random.Random()
    time.sleep(rng.expovariate(1 / 0.004))
    luck = rng.random()
    if value["order_id"] % 97 == 13:
        raise ValueError(f"card of order {value['order_id']} was declined")
    if luck < 0.05:
        raise TimeoutError(f"payment service did not answer in {rng.randint(800, 3000)} ms")
    if luck < 0.06:
        raise ConnectionError(f"connection to 10.0.0.{rng.randint(2, 250)} was reset")
    current_job().put({"order_id": value["order_id"], "city": value["city"]}, to=shipping)


def ship(value: dict[str, Any]) -> None:
    time.sleep(random.expovariate(1 / 0.002))
    if value["city"] == "Perth" and random.random() < 0.5:
        raise OSError(f"warehouse in Perth is closed, parcel {value['order_id']}")


def work(path: Path, queue: str, name: str) -> None:
    """A worker process; it ends when it is terminated."""
    logging.disable(logging.WARNING)  # every failure is in the journal
    with SQLiteQueueStore(path) as store:
        jobs: PersistentQueue[dict[str, Any]] = PersistentQueue(queue, store=store)
        wait = wait_exponential_jitter(initial=0.2, max=2.0, jitter=0.3)
        shipping: PersistentQueue[Any] = PersistentQueue("shipping", store=store)
        handler = partial(charge, shipping=shipping) if queue == "orders" else ship
        Worker(jobs, handler, concurrency=2, max_tries=3, wait=wait, worker_id=name).run()


def arrive(orders: PersistentQueue[dict[str, Any]], count: int, seconds: float) -> None:
    """Put the orders in waves, the second higher than the first."""
    rng = random.Random(7)
    begun = time.monotonic()
    sent = 0
    while sent < count:
        passed = min(1.0, (time.monotonic() - begun) / seconds)
        wanted = int(count * (0.35 * min(1, passed / 0.4) + 0.65 * max(0.0, (passed - 0.55) / 0.45)))
        batch = [order(number, rng) for number in range(sent, min(count, max(wanted, sent + 1)))]
        orders.put_many(batch)
        sent += len(batch)
        time.sleep(0.05)


def evening(path: Path, *, orders: int, seconds: float = SECONDS, say: Callable[[str], None] = print) -> None:
    """Let the shop run on the store at `path` until every order is settled."""
    spawn = multiprocessing.get_context("spawn")
    jobs = [("orders", f"till-{n}") for n in range(WORKERS - 1)] + [("shipping", "warehouse-0")]
    with SQLiteQueueStore(path) as store:
        store.enable_journal()
        queues = [PersistentQueue(name, store=store) for name in ("orders", "shipping")]
        workers = [spawn.Process(target=work, args=(path, queue, name), daemon=True) for queue, name in jobs]
        for worker in workers:
            worker.start()
        try:
            say(f"{len(workers)} worker processes, {orders:,} orders over {seconds:.0f} s")
            producer = spawn.Process(target=produce, args=(path, orders, seconds), daemon=True)
            producer.start()
            shown = 0.0
            while True:
                stats = [queue.stats() for queue in queues]
                left = sum(one.total - one.dead for one in stats)
                if time.monotonic() - shown > 2.0:
                    shown = time.monotonic()
                    text = ", ".join(
                        f"{q.name}: {s.ready:,} ready, {s.inflight} in flight, {s.delayed} to retry, {s.dead} dead"
                        for q, s in zip(queues, stats, strict=True)
                    )
                    say(text)
                if not left and not producer.is_alive():
                    break
                time.sleep(0.1)
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join()


def produce(path: Path, orders: int, seconds: float) -> None:
    with SQLiteQueueStore(path) as store:
        arrive(PersistentQueue("orders", store=store), orders, seconds)
