"""A workflow for workers that get killed, and a log of what its steps did.

Each try of a step writes down a token of its own and the tokens that it was given by the steps above it. So it shows
when a step has had two results.
"""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from typing import Any

from localqueue.workflows import Workflow
from tests.crash.shop import Log
from tests.stores import Place
from tests.workflows.shapes import SEVEN

LEASE = 1.0
ITEMS = 3
STEPS = {**SEVEN, "each": ["init"], "F": ["V", "T", "A", "each"]}


def plant(log: Log) -> Workflow:
    """The DAG of seven steps, and a fan-out beside them."""
    made = Workflow("plant")

    def work(ctx: Any) -> str:
        token = f"{os.getpid()}:{time.monotonic_ns()}"
        given = {name: ctx.result(name) for name in ctx.declared.after}
        log.write("effect", ctx.run_id, ctx.name, ctx.index, token, given)
        time.sleep(0.004)  # so that there is something to kill
        return token

    for name, after in STEPS.items():
        each: Any = {"each": lambda ctx: list(range(ITEMS))} if name == "each" else {}
        made.step(name=name, after=list(after), retries=100, retry_delay=0, **each)(work)
    return made


def run_plant(connection: Connection, place: Place, path: str) -> None:
    """A process that works until it is killed or told to stop."""
    with place.open() as store:
        plant(Log(path)).worker(store, concurrency=3, lease_timeout=LEASE).run()
    connection.send("done")


def stuck(log: Log) -> Workflow:
    """One step, whose first try never ends."""
    made = Workflow("stuck")

    @made.step(retries=1)
    def work(ctx: Any) -> int:
        log.write("begin", ctx.attempt)
        while ctx.attempt == 1:
            time.sleep(1)
        return int(ctx.attempt)

    return made


def run_stuck(connection: Connection, place: Place, path: str, lease: float) -> None:
    log = Log(path)
    with place.open() as store:
        log.write("up")
        stuck(log).worker(store, lease_timeout=lease).run()
    connection.send("done")
