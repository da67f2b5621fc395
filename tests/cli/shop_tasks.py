"""Tasks for the tests of `localqueue work`."""

from __future__ import annotations

from pathlib import Path

from localqueue import Tasks

tasks = Tasks()
nothing = object()


@tasks.task(queue="mail")
def note(word: str) -> str:
    with Path("seen.txt").open("a") as file:
        file.write(f"{word}\n")
    return word


@tasks.task(queue="loop")
async def note_async(word: str) -> str:
    return note(word)


@tasks.task(queue="mail", retries=0)
def fail(word: str) -> None:
    raise ConnectionError(f"no {word}")


@tasks.cron("0 7 * * *", zone="Europe/Lisbon", queue="mail")
def report() -> None: ...
