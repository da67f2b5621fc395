"""Workflows for the tests of `localqueue workflow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localqueue.workflows import StepContext, Workflow

order = Workflow("order")
shipping = Workflow("shipping")
nothing = object()


def refund(ctx: StepContext) -> None:
    Path("refunded.txt").write_text(str(ctx.output))


@order.step
def validate(ctx: StepContext) -> int:
    return int(ctx.input["total"])


@order.step(after=[validate], retries=0, compensate=refund)
def charge(ctx: StepContext) -> int:
    return int(ctx.result("validate"))


@order.step(after=[charge])
def approve(ctx: StepContext) -> Any:
    return ctx.wait_for("approval")


@shipping.step(retries=0)
def find(ctx: StepContext) -> list[int]:
    if not Path("parcels.txt").exists():
        raise FileNotFoundError("no parcels")
    return [1, 2, 3]


@shipping.step(each=find, queue="vans")
def ship(ctx: StepContext) -> int:
    return int(ctx.item) * 10
