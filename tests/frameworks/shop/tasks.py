"""The tasks of the project."""

from __future__ import annotations

import asyncio
from typing import Any

import django
from django.db import connection

from tests.frameworks.shop.models import Order

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

#: What ran in this process, in order.
ran: list[Any] = []


class OutOfStock(Exception):
    """An error of the shop."""


@task
def pack(order: int, note: str = "") -> dict[str, Any]:
    ran.append(order)
    return {"order": Order.objects.get(pk=order).name, "note": note}


@task(queue_name="mail")
async def write(to: str) -> str:
    await asyncio.sleep(0)
    return f"to {to}"


@task
def note(what: str) -> None:
    ran.append(what)


@task
def fail(what: str) -> None:
    ran.append(what)
    raise OutOfStock(what)


@task(takes_context=True)
def attempt(context: Any, last: int) -> int:
    if context.attempt < last:
        raise OutOfStock(f"attempt {context.attempt}")
    return int(context.attempt)


@task
def misfit() -> object:
    ran.append("misfit")
    return object()


@task
def break_connection() -> None:
    Order.objects.count()
    connection.connection.close()


@task
def count() -> int:
    return Order.objects.count()


def no_task() -> None:
    ran.append("no task")
