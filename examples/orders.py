"""Orders that are charged once, confirmed by mail, and undone when they fail.

A producer sends some orders twice, as one does that is not sure. Four threads process them: each order reserves a
parcel and charges a card, as the steps of a saga. Cards ending in 13 are refused, so the reservation of those orders is
taken back. The mail is stored in the transaction that finishes the order. At the end everything is counted.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue, SQLiteQueueStore, Worker, current_job
from localqueue.policies import EffectivelyOnceDelivery, SagaCommit

ORDERS = 20
happened: list[str] = []  # to which threads may append at the same time


def reserve(order: dict[str, Any]) -> str:
    happened.append("reserved")
    return f"shelf {order['number']}"


def charge(order: dict[str, Any]) -> str:
    if order["card"].endswith("13"):
        raise ValueError(f"card {order['card']} was refused")
    happened.append("charged")
    return f"receipt {order['number']}"


def give_back(order: dict[str, Any], shelf: str | None) -> None:
    happened.append("given back")


def refund(order: dict[str, Any], receipt: str | None) -> None:
    if receipt is not None:  # None: the worker died in the middle of the charge
        happened.append("refunded")


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    delivery = EffectivelyOnceDelivery(
        commit_policy=SagaCommit(compensations={"reserve": give_back, "charge": refund}),
    )
    with tempfile.TemporaryDirectory() as folder, SQLiteQueueStore(Path(folder) / "orders.db") as store:
        orders: PersistentQueue[dict[str, Any]] = PersistentQueue("orders", store=store, delivery_policy=delivery)
        mails: PersistentQueue[str] = PersistentQueue("mails", store=store)

        def fulfil(order: dict[str, Any]) -> None:
            job = current_job()
            shelf = job.step("reserve", reserve, order)
            receipt = job.step("charge", charge, order)
            job.put(f"order {order['number']}: {shelf}, {receipt}", to=mails)

        for attempt in range(2):
            for number in range(ORDERS):
                card = f"{number:04d}13" if number % 7 == 3 else f"{number:04d}42"
                orders.put({"number": number, "card": card}, dedupe_key=f"order-{number}")
            if attempt == 0:
                Worker(orders, fulfil, concurrency=4, max_tries=2, wait=0).run_until_empty()
        again = Worker(orders, fulfil, concurrency=4, max_tries=2, wait=0).run_until_empty()

        sent: list[str] = []
        Worker(mails, sent.append).run_until_empty()
        refused = {message.value["number"] for message in orders.dead_letters()}

    effects = Counter(happened)
    print(f"{ORDERS} orders, each put twice")
    for effect, count in sorted(effects.items()):
        print(f"  {effect:<12} {count}")
    print(f"  {'mails sent':<12} {len(sent)}")
    print(f"  {'duplicates':<12} {again.skipped}, recognised by their key")
    print(f"  {'refused':<12} {sorted(refused)}")
    good = ORDERS - len(refused)
    assert effects["charged"] == len(sent) == len(set(sent)) == again.skipped == good
    assert effects["reserved"] == effects["given back"] + good


if __name__ == "__main__":
    main()
