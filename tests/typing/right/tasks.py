"""Tasks keep the signature of their function, through the call, the job and its result."""

from datetime import datetime
from typing import assert_type
from uuid import UUID

from localqueue import Tasks
from localqueue.tasks import JobHandle

tasks = Tasks("sqlite:///jobs.db")


@tasks.task(queue="mail", retries=5, retry_delay=2, backoff=2, retry_on=(ConnectionError,), timeout=30, rate="10/s")
def send(user: UUID, when: datetime, copies: int = 1) -> str:
    return f"{user} {when} {copies}"


@tasks.task
async def fetch(url: str) -> bytes:
    return url.encode()


@tasks.task
def nothing() -> None: ...


@tasks.cron("0 7 * * *", zone="Europe/Lisbon", queue="reports")
def report() -> None: ...


@tasks.every(60, args=(1,))
def refresh(number: int) -> int:
    return number


def produce(user: UUID, when: datetime) -> None:
    assert_type(send(user, when), str)
    job = send.enqueue(user, when, copies=2)
    assert_type(job, JobHandle[str])
    assert_type(job.result(timeout=5), str)
    assert_type(send.delay(user, when).result(), str)
    assert_type(send.options(delay=60, dedupe_key="one", after=[job]).enqueue(user, when), JobHandle[str])
    assert_type(send.many([(user, when), {"user": user, "when": when}]), list[JobHandle[str]])
    assert_type(fetch.enqueue("url").result(), bytes)
    assert_type(send.job(job.id), JobHandle[str])
    assert_type(refresh(1), int)
    nothing.enqueue()
    report.enqueue()


async def produce_on_a_loop(user: UUID, when: datetime) -> None:
    assert_type(await fetch("url"), bytes)
    job = await send.aenqueue(user, when)
    assert_type(await job, str)
    assert_type(await fetch.enqueue("url"), bytes)


tasks.worker(concurrency=4, queues={"mail": 3, "default": 1}).run_until_empty()
