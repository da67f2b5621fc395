"""Orders that somebody has to approve, as a workflow.

An order is checked. A large one waits until somebody says yes, which holds neither a thread nor a lease. Then the card
is charged, and the items are picked, each as a message of its own. Where an item is sold out, what was done is undone,
the last first: the shelves get back what they gave, and the customer the money. At the end everything is counted.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from localqueue import SQLiteQueueStore
from localqueue.workflows import RunFailed, StepContext, Workflow

PRICES = {"lamp": 40, "chair": 120, "rug": 300, "clock": 75}
LARGE = 250
SHELVES = Counter({"lamp": 3, "chair": 2, "rug": 2})

# What the bank and the shelves know, by idempotency key: however often a step is called, it is charged and picked once.
money: Counter[str] = Counter()
taken: dict[str, str] = {}
lock = threading.Lock()

order = Workflow("order", version=1)


@order.step
def check(ctx: StepContext) -> int:
    return sum(PRICES[item] for item in ctx.input["items"])


@order.decision(after=[check], branches=["small", "approve"], exclusive=True)
def size(ctx: StepContext) -> str:
    return "approve" if ctx.result("check") > LARGE else "small"


small = order.gate("small", after=[size])


@order.step(after=[size], retries=0)
def approve(ctx: StepContext) -> str:
    answer = ctx.wait_for("approval", timeout=7 * 86400)
    if not answer["yes"]:
        raise PermissionError(f"{answer['by']} says no")
    return str(answer["by"])


def refund(ctx: StepContext) -> None:
    with lock:
        del money[ctx.output]


@order.step(after=[small, approve], compensate=refund, timeout=30)
def charge(ctx: StepContext) -> str:
    with lock:
        money[ctx.key] = ctx.result("check")
    return ctx.key


def put_back(ctx: StepContext) -> None:
    with lock:
        taken.pop(ctx.output, None)


@order.step(after=[charge], each=lambda ctx: ctx.input["items"], compensate=put_back, retry_on=ConnectionError)
def pick(ctx: StepContext) -> str:
    with lock:
        if ctx.key not in taken and SHELVES[ctx.item] <= list(taken.values()).count(ctx.item):
            raise LookupError(f"no {ctx.item} is left")
        taken[ctx.key] = ctx.item
    return ctx.key


@order.step(after=[pick])
def send(ctx: StepContext) -> dict[str, Any]:
    return {"parcel": ctx.result("pick"), "approved by": ctx.result("approve", None)}


def main() -> None:
    logging.disable(logging.ERROR)  # the runs say what has failed
    orders = {
        "small": ["lamp", "chair"],
        "large": ["rug", "chair", "lamp"],
        "refused": ["rug", "rug"],
        "sold-out": ["lamp", "clock"],
    }
    with tempfile.TemporaryDirectory() as folder, SQLiteQueueStore(Path(folder) / "orders.db") as store:
        runs = {name: order.start(store, {"items": items}, run_id=name) for name, items in orders.items()}
        worker = order.worker(store, concurrency=4)
        working = threading.Thread(target=worker.run, kwargs={"signals": False})
        working.start()
        try:
            runs["large"].signal("approval", {"by": "Grace", "yes": True})
            runs["refused"].signal("approval", {"by": "Grace", "yes": False})
            for name, run in runs.items():
                try:
                    print(f"{name:<9}", run.wait(timeout=30).results["send"])
                except RunFailed as failure:
                    print(f"{name:<9}", failure)
            print(f"\n{runs['sold-out'].timeline(40)}")
        finally:
            worker.stop()
            working.join()
        states = {name: run.status().state for name, run in runs.items()}

    sent = [name for name, state in states.items() if state == "succeeded"]
    print(f"sent {sent}: charged {money.total()}, {len(taken)} of {SHELVES.total()} things are gone")
    assert states == {"small": "succeeded", "large": "succeeded", "refused": "compensated", "sold-out": "compensated"}
    assert money.total() == sum(PRICES[item] for name in sent for item in orders[name])
    assert sorted(taken.values()) == sorted(item for name in sent for item in orders[name])


if __name__ == "__main__":
    main()
