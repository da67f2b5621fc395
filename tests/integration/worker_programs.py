"""Programs with a worker in them, run in processes of their own and watched through what they write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue
from localqueue.contracts import steps

PATIENCE = 3 * steps.PATIENCE  # a program has to start first

_FRAME = """
import asyncio, os, signal, sys, threading, time
from localqueue import PersistentQueue
from localqueue.workers import AsyncWorker, Worker

PLACE = {place!r}
queue = PersistentQueue("jobs", store_path=PLACE + "/jobs.sqlite3", lease_timeout={lease_timeout!r})

def say(*words):
    with open(PLACE + "/said", "a") as file:
        file.write(" ".join(map(str, words)) + chr(10))

def wait_for(name):
    while not os.path.exists(PLACE + "/" + name):
        time.sleep(0.005)

"""


class Program:
    """A Python program that uses the queue in `place`, and is killed at the end of the block."""

    def __init__(self, place: Path, text: str, *, lease_timeout: float = 30.0) -> None:
        self.place = place
        source = _FRAME.format(place=str(place), lease_timeout=lease_timeout) + textwrap.dedent(text)
        (place / "program.py").write_text(source)
        self.errors = (place / "errors").open("w")
        self.process = subprocess.Popen(
            [sys.executable, place / "program.py"], stderr=self.errors, start_new_session=True
        )

    @property
    def said(self) -> list[str]:
        return (self.place / "said").read_text().splitlines() if (self.place / "said").exists() else []

    def wait_for(self, *words: str) -> None:
        self.until(lambda: all(word in self.said for word in words))

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{self.said} {(self.place / 'errors').read_text()}"
            time.sleep(0.005)

    def allow(self, name: str) -> None:
        (self.place / name).touch()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()


def open_queue(place: Path, **options: Any) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store_path=place / "jobs.sqlite3", **options)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
