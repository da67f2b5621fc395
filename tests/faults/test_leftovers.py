"""A test run that is ended in the middle leaves no server and no folder behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import has_process
from tests.stores import SERVERS
from tests.unit.worker_steps import eventually

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.server]

ROOT = Path(__file__).parents[2]

# A fork of the run that outlives it has all of its open files.
A_TEST = """
import os, pathlib, signal, time
from tests.servers import {server}

def test_that_does_not_end():
    server = {server}()
    server.start()
    fork = os.fork()
    if not fork:
        os.close(1), os.close(2)
        time.sleep(60)
        os._exit(0)
    said = pathlib.Path(__file__).with_name("said")
    said.with_name("saying").write_text(f"{{fork}} {{server.process.pid}} {{server.folder}}")
    said.with_name("saying").rename(said)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("kind", "how", "options"),
    [
        *((kind, "SIGTERM", "-pno:xdist") for kind in SERVERS),
        ("redis", "SIGKILL", "-pno:xdist"),
        ("redis", "SIGTERM", "-n1"),
    ],
)
def test_a_run_that_is_ended_takes_its_servers_along(kind: str, how: str, options: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(A_TEST.format(server=SERVERS[kind].__name__))
    command = [sys.executable, "-m", "pytest", "-q", options, "-pno:cacheprovider", "-c", os.devnull, str(tmp_path)]
    said = tmp_path / "said"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as run:
        eventually(lambda: said.exists() or run.poll() is not None)
        fork, server, folder = said.read_text().split()
        try:
            assert has_process(int(server)) and Path(folder).is_dir()
            run.send_signal(getattr(signal, how))
            run.wait()
            eventually(lambda: not has_process(int(server)))
            eventually(lambda: not list(Path(folder).parent.glob(f"{Path(folder).name}*")))
            assert has_process(int(fork))
        finally:
            os.kill(int(fork), signal.SIGKILL)
