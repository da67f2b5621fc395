"""The examples of docs/cli.md run as they stand, and the page names every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from localqueue.cli.app import build
from localqueue.cli.config import KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


@pytest.mark.timeout(300)  # some sixty commands, each a process of its own
@pytest.mark.multiprocess
@pytest.mark.slow
def test_the_examples_run_one_after_another() -> None:
    command = Path("bin/localqueue")
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m localqueue.cli "$@"\n')
    command.chmod(0o755)
    script = "set -e\n" + "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
    path = f"{command.parent.resolve()}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_every_command_and_config_key() -> None:
    tree = typer.main.get_command(build())
    for family, group in tree.commands.items():  # type: ignore[attr-defined]
        for name in getattr(group, "commands", {"": None}):
            words = f"{family} {name}".strip() if family != "queue" else name
            assert re.search(rf"\b{words}\b", PAGE), words
    for key in KEYS:
        assert f"`{key}`" in PAGE
