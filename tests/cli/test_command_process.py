"""The command as a process: terminals, pipes, signals, what it loads."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import localqueue
from localqueue import __version__
from localqueue.cli import app
from tests.cli.command import COMMAND, has_open, put, run, run_process, started, wait_until

pytestmark = pytest.mark.multiprocess


def on_a_terminal(*args: str) -> tuple[int, str]:
    """Run a command line with a terminal as its stdin and stdout; the exit code and what the terminal showed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *args], stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how Linux says that nobody holds the other end any more
            pass
        os.close(ours)
    return process.returncode, shown.decode()


def test_a_terminal_gets_text_and_json_when_asked() -> None:
    (id,) = put("jobs", {"n": 1})
    code, shown = on_a_terminal("queue", "list")
    assert code == 0 and "jobs" in shown and "{" not in shown
    code, shown = on_a_terminal("queue", "inspect", "jobs", id)
    assert code == 0 and id in shown and '"queue"' not in shown
    code, shown = on_a_terminal("queue", "inspect", "jobs", id, "--json")
    assert code == 0 and '"queue": "jobs"' in shown


def test_nobody_is_waited_for_when_stdin_is_a_terminal() -> None:
    code, shown = on_a_terminal("queue", "add", "jobs")
    assert (code, shown.strip()) == (2, "missing value; pass an argument or pipe data on stdin")


def test_a_pipe_gets_json() -> None:
    assert run_process("queue", "add", "jobs", stdin="1\n").json["value"] == 1
    assert run_process("queue", "pop", "jobs").json["value"] == 1


def test_stdin_that_is_not_text_is_a_mistake() -> None:
    done = subprocess.run(
        [*COMMAND, "queue", "add", "jobs"],
        input=b"\xff\xfe",
        capture_output=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"the value on stdin is not text") and done.stderr.count(b"\n") == 1


def test_an_encoding_without_the_characters_gets_escapes() -> None:
    put("jobs", "ä")
    ran = run_process("queue", "pop", "jobs", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ran.json["value"] == "ä" and ran.out.isascii()


def test_a_reader_that_leaves_is_no_error() -> None:
    put("jobs", *range(30))
    shell = " ".join(COMMAND)
    done = subprocess.run(
        ["bash", "-c", f"{shell} queue messages jobs | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() in (["[", "141"], ["[", "0"])
    with started("queue", "stats", "jobs", "--watch", "--interval", "0.01") as watching:
        assert watching.stdout is not None and watching.stderr is not None
        watching.stdout.readline()
        watching.stdout.close()
        assert watching.stderr.read() == ""
        assert watching.wait(60) == 141


def test_a_watch_ends_with_ctrl_c() -> None:
    put("jobs", 1)
    with started("queue", "stats", "jobs", "--watch", "--interval", "0.01") as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (0, "")


def test_a_blocked_pop_wakes_for_a_message_of_another_process() -> None:
    with started("queue", "pop", "jobs", "--block", "--timeout", "60") as popping:
        put("jobs", "hello")
        out, err = popping.communicate(timeout=60)
    assert popping.returncode == 0 and '"hello"' in out and err == ""


def test_a_blocked_pop_ends_with_ctrl_c_and_without_a_traceback() -> None:
    store = Path("data/localqueue/queue.sqlite3")
    put("other", 1)
    with started("queue", "pop", "jobs", "--block") as popping:
        wait_until(lambda: has_open(popping, store), "opening the store")
        popping.send_signal(signal.SIGINT)
        _, err = popping.communicate(timeout=60)
    assert popping.returncode == 130 and "Traceback" not in err


def test_the_installed_script_and_the_module_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("localqueue")
    if script.exists():
        done = subprocess.run([script, "--version"], capture_output=True, text=True)
        assert done.stdout.strip() == __version__
    assert run_process("--version").out.strip() == __version__


def loaded_by(*args: str) -> set[str]:
    code = f"""
import sys
from localqueue.cli import main
try:
    main({list(args)!r})
except SystemExit:
    print("LOADED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("LOADED ")[1].split())


def test_a_command_loads_only_what_it_needs() -> None:
    assert not loaded_by("--version") & {"typer", "rich", "yaml", "localqueue.queue", "localqueue.cli.app"}
    adding = loaded_by("queue", "add", "jobs", "--value", "1")
    assert not adding & {"yaml", "tenacity", "asyncio", "lmdb", "cronsim", "rich.table", "localqueue.workers"}


def test_a_command_loads_its_own_family_only() -> None:
    sizing = loaded_by("queue", "size", "jobs", "--store-path", "nowhere.db")
    assert "localqueue.cli.overview" in sizing
    others = {"pipeline", "process", "journal", "queue_copy", "schedule", "retention", "worker"}
    assert not sizing & {f"localqueue.cli.{name}" for name in others}


@pytest.mark.parametrize("module", app.QUEUE_COMMANDS)
def test_the_table_of_queue_commands_says_what_a_module_registers(module: str) -> None:
    family = typer.Typer()
    import_module(f"localqueue.cli.{module}").register(family)

    assert tuple(one.name for one in family.registered_commands) == app.QUEUE_COMMANDS[module]


@pytest.mark.parametrize("name", ["queue", *app.FAMILIES, *app.COMMANDS])
def test_a_branch_of_the_tree_is_what_the_whole_tree_has_there(name: str) -> None:
    branch = typer.main.get_command(app.build([name]))
    whole = typer.main.get_command(app.build())

    assert list(branch.commands) == [name]  # type: ignore[attr-defined]
    found, expected = (tree.commands[name] for tree in (branch, whole))  # type: ignore[attr-defined]
    assert list(getattr(found, "commands", ())) == list(getattr(expected, "commands", ()))


def test_missing_extras_are_named() -> None:
    source = str(Path(localqueue.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-S", *COMMAND[1:], "config", "path"],  # -S: without what is installed
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "The localqueue CLI requires optional dependencies. Install with: pip install 'localqueue[cli]'"
    )


@pytest.mark.parametrize("args", [(), ("queue",), ("config",), ("retry",), ("idempotency",), ("schedule",)])
def test_without_a_command_there_is_help_and_exit_code_2(args: tuple[str, ...]) -> None:
    ran = run(*args)
    assert ran.code == 2 and ran.out == ""
    assert "Commands:" in ran.err


def test_an_unknown_command_is_a_mistake() -> None:
    ran = run("qeue")
    assert ran.code == 2 and "No such command 'qeue'" in ran.err and ran.err.count("\n") == 1
