"""Command lines, made of the commands and options that there are, and a process that they are given to: this one."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import typer
from hypothesis import strategies as st

from localqueue.cli import app, main
from tests.fuzz.words import words

SECRET = "Gehe1mnis"
ID = "0" * 32

#: What a command would wait with, or start other processes for.
ENDLESS = {"--forever", "--block", "--watch", "--follow", "--processes", "--help", "--version"}
#: What ends a command that would otherwise go on.
ENDING = {"worker": "--until-empty", "schedule run": "--once", "pipeline doctor": "--quick"}
#: The commands that make nothing, unless an option of theirs says so.
LOOKS = {
    "queue list", "queue messages", "queue size", "queue stats", "queue health", "queue inspect", "queue dead",
    "queue journal", "queue events", "queue check", "schedule list", "config path", "config show",
    "pipeline triage audit",
}  # fmt: skip
MAKING = {"--enable", "--disable", "--prune-older-than", "--prune", "--spark-log"}

#: What an argument may be where it is what it should be.
RIGHT = [
    "jobs",
    ID,
    "1",
    "10",
    "0.5",
    "true",
    "[1]",
    "a=b",
    "15m",
    "builtins:repr",
    "sqlite:///other.db",
    "x.db",
    "csv",
]


class Ran(NamedTuple):
    code: Any
    out: str
    err: str


def tame(word: str) -> str:
    """A word that a command line can hold, and that names nothing outside of the working directory."""
    held = word.replace("\0", "").encode("utf-8", "surrogateescape" if _is_escaped(word) else "replace")
    text = held.decode("utf-8", "surrogateescape")
    return "." + text if text.startswith(("/", "~")) else text


def _is_escaped(word: str) -> bool:
    return all(not "\ud800" <= one <= "\udfff" or "\udc80" <= one <= "\udcff" for one in word)


typed = st.one_of(
    words.map(tame), st.binary(min_size=1, max_size=4).map(lambda one: tame(one.decode(errors="surrogateescape")))
)
secret = st.sampled_from(
    [f"redis://me:{SECRET}@127.0.0.1:1/0", f"host=127.0.0.1 port=1 password={SECRET}", f"pg://me:{SECRET}@h/d"]
)


@cache
def leaves() -> dict[str, Any]:
    """The commands, by their words."""

    def below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, one in getattr(command, "commands", {}).items():
            yield from below(one, (*path, name))
        if not hasattr(command, "commands"):
            yield " ".join(path), command

    return dict(below(typer.main.get_command(app.build()), ()))


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command, and its words with all that follows."""
    name = draw(st.sampled_from(sorted(leaves())))
    values = st.one_of(st.sampled_from(RIGHT), typed, typed, secret)
    args: list[str] = []
    options = []
    for one in leaves()[name].params:
        if one.param_type_name == "argument":
            args += draw(st.lists(values, min_size=one.required, max_size=2 if one.nargs == -1 else 1))
        else:
            options.append(one)
    for one in draw(st.lists(st.sampled_from(options), max_size=3)) if options else ():
        flag = draw(st.sampled_from([*one.opts, *one.secondary_opts]))
        if flag not in ENDLESS:
            args += [flag] if one.is_flag else [flag, draw(values)]
    args += draw(st.lists(typed, max_size=1)) if draw(st.integers(0, 9)) == 0 else []
    return name, [*name.split(), *args, *filter(None, [ENDING.get(name)])]


def call(args: list[str], stdin: bytes = b"") -> Ran:
    """Run a command line here, with streams that are as strict as those of a process."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    path, handlers = [*sys.path], [*logging.getLogger("localqueue").handlers]
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", given):
        try:
            main(args)
        except SystemExit as end:
            code = end.code
        finally:
            sys.path[:] = path
            logging.getLogger("localqueue").handlers[:] = handlers
    shown = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]  # type: ignore[attr-defined]
    return Ran(code, *shown)


def in_order(ran: Ran) -> None:
    """It did what it was asked to, or says in one line why not, without a password."""
    assert ran.code in (0, 1, 2), ran
    assert "Traceback" not in ran.err and "LOCALQUEUE_TRACEBACK" not in ran.err, ran
    assert SECRET not in ran.err or '{"event"' in ran.err, ran  # events tell what was put, whatever that is
    if ran.code == 2:
        assert ran.err.strip() and ran.out == "", ran
    if ran.code == 1:
        assert ran.err.strip() or ran.out.strip(), ran
    if "Usage:" not in ran.err:
        assert len(ran.err.splitlines()) <= 2, ran


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
