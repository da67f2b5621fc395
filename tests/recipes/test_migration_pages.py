"""Both sides of the pages for those who come from another library run as they stand, with the commands they name.

A block that begins with the name of a file is that file, or more of it. The other blocks of a side are one program,
which runs while the side's worker does; then its tests run, without the worker. Blocks of the other library have its
name beside the language.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.servers import Redis, shared

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("celery", "rq", "huey", "dramatiq", "queue")
ON_REDIS = {"celery": 11, "rq": 12, "dramatiq": 13}  # each has a database of its own
ADDRESS = "redis://localhost:6379/0"
FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")


@pytest.mark.parametrize("library", PAGES)
def test_the_side_of_localqueue_runs(library: str, tmp_path: Path) -> None:
    run_side(library, "", tmp_path)


@pytest.mark.parametrize("library", [name for name in PAGES if name not in ON_REDIS])
def test_the_side_of_the_other_library_runs(library: str, tmp_path: Path) -> None:
    run_side(library, library, tmp_path)


@pytest.mark.server
@pytest.mark.parametrize("library", ON_REDIS)
def test_the_side_of_the_other_library_runs_on_redis(library: str, tmp_path: Path) -> None:
    address = urlsplit(shared(Redis).url)._replace(path=f"/{ON_REDIS[library]}").geturl()
    run_side(library, library, tmp_path, address)


@pytest.mark.parametrize("library", PAGES)
def test_a_page_compares_concepts_and_has_both_sides_of_everything(library: str) -> None:
    page = (DOCS / f"from-{library}.md").read_text()
    sides = [side for language, side, _ in FENCE.findall(page) if language in ("python", "sh")]
    assert "| localqueue |" in page
    assert sides == [library, ""] * (len(sides) // 2)
    assert "## What is not here" in page


def run_side(library: str, side: str, folder: Path, address: str = ADDRESS) -> None:
    page = (DOCS / f"from-{library}.md").read_text().replace(ADDRESS, address)
    blocks = [(language, code) for language, of, code in FENCE.findall(page) if of == side]
    program = ""
    for code in (code for language, code in blocks if language == "python"):
        if named := FILE.match(code):
            with (folder / named[1]).open("a") as file:
                file.write(code)
        else:
            program += code
    (folder / "program.py").write_text(program)
    commands = [code for language, code in blocks if language == "sh"]
    with workers(commands, folder):
        run([sys.executable, "program.py"], folder)
    if (folder / "test_shop.py").exists():
        run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"], folder)


@contextmanager
def workers(commands: list[str], folder: Path) -> Iterator[None]:
    """The worker commands of a side, which have ended, with all their children, when the block has."""
    log = (folder / "workers.log").open("wb")
    running = [
        subprocess.Popen(
            shlex.split(line), cwd=folder, env=environment(), start_new_session=True, stdout=log, stderr=log
        )
        for line in "".join(commands).splitlines()
    ]
    try:
        yield
    except BaseException as error:
        error.add_note((folder / "workers.log").read_text(errors="replace")[-5000:])
        raise
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def environment() -> dict[str, str]:
    """Of a process that finds the commands of this Python, the files of the page, and of plugins for pytest only ours,
    whether or not its entry point is installed."""
    return {
        **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},  # Celery looks at it
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "localqueue.testing.plugin",
        "XDG_DATA_HOME": "data",
    }
