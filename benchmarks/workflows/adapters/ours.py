"""localqueue: the shapes as workflows, a worker for all of them, and runs that are started and waited for.

All workflows of functions share one queue, as those of the peers do. The flow has its own: where a queue has coroutine
functions, its worker has an event loop and runs the other functions beside it. With `queue_each` each has its own, as
they have unless told, and the one worker serves eight queues.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from localqueue import open_store
from localqueue.workflows import Workflow

QUEUE = "bench"
ROWS, CHUNK = 1_000, 200  # a batch of rows for five workers


def _linear(name: str, length: int, queue: str | None) -> Workflow:
    made = Workflow(name, queue=queue)

    def first(ctx: Any) -> int:
        return 1

    above: Any = made.step(first)
    for number in range(2, length + 1):

        def add_one(ctx: Any, above: str = above.name) -> int:
            return ctx.result(above) + 1

        above = made.step(after=[above], name=f"step{number}")(add_one)
    return made


def _flow() -> Workflow:
    made = Workflow("flow")

    async def first() -> int:
        return 1

    async def add_one(value: int) -> int:
        return value + 1

    @made.flow
    async def three(ctx: Any) -> int:
        return await ctx.step(add_one, await ctx.step(add_one, await ctx.step(first)))

    return made


def _dag(queue: str | None) -> Workflow:
    made = Workflow("dag", queue=queue)

    @made.step
    def init(ctx: Any) -> int:
        return 1

    @made.step(after=[init])
    def L(ctx: Any) -> int:
        return ctx.result("init") + 1

    @made.step(after=[init])
    def R(ctx: Any) -> int:
        return ctx.result("init") + 2

    @made.step(after=[L, R])
    def V(ctx: Any) -> int:
        return ctx.result("L") + ctx.result("R")

    @made.step(after=[L])
    def T(ctx: Any) -> int:
        return ctx.result("L") * 2

    @made.step(after=[R])
    def A(ctx: Any) -> int:
        return ctx.result("R") * 3

    @made.step(after=[V, T, A])
    def F(ctx: Any) -> int:
        return ctx.result("V") + ctx.result("T") + ctx.result("A")

    return made


def _diamond(queue: str | None) -> Workflow:
    made = Workflow("diamond", queue=queue)

    @made.step
    def top(ctx: Any) -> int:
        return 1

    @made.step(after=[top])
    def left(ctx: Any) -> int:
        return ctx.result("top") + 2

    @made.step(after=[top])
    def right(ctx: Any) -> int:
        return ctx.result("top") + 3

    @made.step(after=[left, right])
    def bottom(ctx: Any) -> int:
        return ctx.result("left") + ctx.result("right")

    return made


def _tree(queue: str | None) -> Workflow:
    """A root, two children, four leaves, and the one that counts them all."""
    made = Workflow("tree", queue=queue)

    def node(ctx: Any) -> int:
        return 1

    def declare(name: str, above: list[Any]) -> Any:
        return made.step(after=above, name=name)(node)

    root = declare("root", [])
    branches = [declare(name, [root]) for name in ("left", "right")]
    leaves = [declare(f"leaf{number}", [branches[number // 2]]) for number in range(4)]
    names = ["root", "left", "right", *(leaf.name for leaf in leaves)]

    @made.step(after=leaves)
    def count(ctx: Any) -> int:
        return 1 + sum(ctx.result(name) for name in names)

    return made


def _conditional(queue: str | None) -> Workflow:
    """A decision; one of two branches runs, the other is skipped, and the join runs all the same."""
    made = Workflow("conditional", queue=queue)

    @made.step
    def look(ctx: Any) -> int:
        return 1

    @made.decision(after=[look], branches=["express", "normal"])
    def choose(ctx: Any) -> str:
        return "express"

    @made.step(after=[choose])
    def express(ctx: Any) -> int:
        return ctx.result("look") + 2

    @made.step(after=[choose])
    def normal(ctx: Any) -> int:
        return 0

    @made.step(after=[express, normal])
    def join(ctx: Any) -> int:
        return ctx.result("express") + 1

    return made


def _batch(queue: str | None) -> Workflow:
    """Rows in chunks, one message each, and the sum of what they came to."""
    made = Workflow("batch", queue=queue)

    @made.step
    def find(ctx: Any) -> list[int]:
        return list(range(ROWS))

    @made.step(after=[find], each="find", batch=CHUNK)
    def double(ctx: Any) -> int:
        return sum(2 * row for row in ctx.rows(every=50))

    @made.step(after=[double])
    def total(ctx: Any) -> int:
        return sum(ctx.results("double"))

    return made


Shapes = dict[str, tuple[Workflow, str]]


def declare(queue: str | None) -> Shapes:
    """Each shape, and the step whose result is the result of the run."""
    return {
        "linear": (_linear("linear", 3, queue), "step3"),
        "flow": (_flow(), "three"),
        "dag": (_dag(queue), "F"),
        "linear4": (_linear("linear4", 4, queue), "step4"),
        "diamond": (_diamond(queue), "bottom"),
        "tree": (_tree(queue), "count"),
        "conditional": (_conditional(queue), "join"),
        "batch": (_batch(queue), "total"),
    }


SHAPES = declare(QUEUE)
#: how many messages a run of a shape is
STEPS = {"linear": 3, "dag": 7}


class Worker:
    def __init__(
        self, address: str, *, concurrency: int, durability: str = "process", queue_each: bool = False, **_: Any
    ) -> None:
        self.store = open_store(address, durability=durability)
        (first, _last), *others = (declare(None) if queue_each else SHAPES).values()
        self.worker = first.worker(self.store, concurrency=concurrency, also=[made for made, _ in others])
        self.thread = threading.Thread(target=self.worker.run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.worker.stop()
        self.thread.join()
        self.store.close()


class Starter:
    def __init__(
        self, address: str, *, durability: str = "process", threads: int = 1, queue_each: bool = False, **_: Any
    ) -> None:
        self.store = open_store(address, durability=durability)
        self.shapes = declare(None) if queue_each else SHAPES
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def start(self, shape: str) -> Any:
        return self.shapes[shape][0].start(self.store, None)

    def result(self, shape: str, run: Any) -> Any:
        return run.wait(timeout=120).results[self.shapes[shape][1]]

    def run(self, shape: str) -> Any:
        return self.result(shape, self.start(shape))

    def run_many(self, shape: str, n: int) -> list[Any]:
        if self.pool is None:
            runs = [self.start(shape) for _ in range(n)]
        else:
            runs = list(self.pool.map(lambda _: self.start(shape), range(n)))
        return [self.result(shape, run) for run in runs]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()
        self.store.close()
