"""Running the command, in this process or in one of its own."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from localqueue.cli import main

COMMAND = (sys.executable, "-m", "localqueue.cli")


def environment() -> dict[str, str]:
    """Of a process that finds the handlers of `tests.cli.jobs`."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@dataclass(frozen=True)
class Ran:
    """What a command line led to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        """JSON documents one after another."""
        found, rest, decoder = [], self.out.lstrip(), json.JSONDecoder()
        while rest:
            document, end = decoder.raw_decode(rest)
            found.append(document)
            rest = rest[end:].lstrip()
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """What --log-events wrote."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]


class Typed(io.StringIO):
    """A stdin that somebody sits in front of."""

    def isatty(self) -> bool:
        return True


def run(*args: str, stdin: str | None = None) -> Ran:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    given = Typed() if stdin is None else io.StringIO(stdin)
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", given):
        try:
            main(list(args))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())


def run_process(*args: str, stdin: str = "", **settings: Any) -> Ran:
    """Run a command line in a process of its own."""
    done = subprocess.run([*COMMAND, *args], input=stdin, text=True, capture_output=True, timeout=60, **settings)
    return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(*args: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A command line that runs until the end of the block, at most."""
    process = subprocess.Popen(
        [*COMMAND, *args],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **settings,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)


def has_open(process: subprocess.Popen[str], path: Path) -> bool:
    """Whether the process has opened a file."""
    descriptors = f"/proc/{process.pid}/fd"
    for name in os.listdir(descriptors):
        with suppress(FileNotFoundError):
            if os.readlink(f"{descriptors}/{name}") == str(path.resolve()):
                return True
    return False


def send_one_after_another(process: subprocess.Popen[str], *signals: int) -> None:
    """Each signal when the one before has arrived: two at once may reach different threads, in any order."""
    status = Path(f"/proc/{process.pid}/status")
    for number in signals:
        process.send_signal(number)
        wait_until(lambda: not re.search(r"^(Sig|Shd)Pnd:\s*0*[1-9a-f]", status.read_text(), re.MULTILINE), "delivery")


def put(queue: str, *values: Any) -> list[str]:
    """Put values by the command; the ids of the messages."""
    return [run("queue", "add", queue, "--value", json.dumps(value)).json["id"] for value in values]
