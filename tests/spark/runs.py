"""A store with runs of every kind: of workflows and a flow, done, failed, forked and not begun, and a plain one."""

from __future__ import annotations

import contextlib
from typing import Any

from localqueue.stores.port import Changes, NewMessage, QueueStore
from localqueue.workflows import FlowContext, RunFailed, Workflow


def workflows() -> tuple[Workflow, Workflow, Workflow]:
    """An order that packs its items and ships them with another workflow, and a flow."""
    shipping = Workflow("shipping", version=1)
    order = Workflow("order", version=2)
    greeting = Workflow("greeting", version=1)

    @shipping.step
    def hand_over(ctx: Any) -> str:
        return "gone"

    @order.step(retries=1, retry_delay=0)
    def charge(ctx: Any) -> list[int]:
        if ctx.input["fail"] or ctx.attempt == 1:
            raise ValueError("card declined")
        return [1, 2]

    @order.step(after=[charge], each="charge")
    def pack(ctx: Any) -> Any:
        return ctx.item

    order.child("ship", shipping, after=[pack])

    @greeting.flow
    async def greet(ctx: FlowContext) -> Any:
        await ctx.wait_for("name")
        return await ctx.options(name="say").step(str.upper, "hello")

    return shipping, order, greeting


def fill(store: QueueStore) -> None:
    shipping, order, greeting = workflows()
    order.start(store, {"fail": False}, run_id="good")
    order.start(store, {"fail": True}, run_id="bad")
    greeting.start(store, None, run_id="hello")
    order.worker(store, also=[shipping, greeting]).run_until_empty()
    greeting.run(store, "hello").signal("name", "you")
    greeting.worker(store).run_until_empty()
    with contextlib.suppress(RunFailed):
        order.run(store, "bad").wait(timeout=10)
    order.run(store, "good").wait(timeout=10)
    order.run(store, "good").fork("ship", run_id="forked")
    order.start(store, {"fail": False}, run_id="good later")  # nobody works any more
    store.commit(Changes(enqueue=[NewMessage(store.mint(1)[0], "jobs", "1", run_id="plain")]))
