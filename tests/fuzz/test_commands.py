"""Any words in any command: it does what it is asked, or says in one line why not. One that looks makes nothing."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.commands import LOOKS, MAKING, call, everything, in_order, leaves, lines, typed
from tests.fuzz.effort import examples

pytestmark = pytest.mark.slow


def prepare(home: Path, filled: bool) -> None:
    """An empty home, or one with a store; it is made once and copied."""
    made = home.with_name("made")
    if not made.exists():
        assert call(["queue", "add", "jobs", "--value", '{"a": 1}']).code == 0
        home.rename(made)
        home.mkdir()
    for path in home.iterdir():
        rmtree(path) if path.is_dir() else path.unlink()
    if filled:
        copytree(made, home, dirs_exist_ok=True)


def test_every_command_is_looked_at() -> None:
    assert set(leaves()) >= LOOKS and len(leaves()) > 40


@given(line=lines(), filled=st.booleans(), stdin=st.binary(max_size=8) | st.just(b"1\n"))
@examples(60)
def test_any_words_are_answered(home: Path, line: tuple[str, list[str]], filled: bool, stdin: bytes) -> None:
    name, args = line
    prepare(home, filled)
    before = everything(home)
    in_order(call(args, stdin))
    if "--dry-run" in args or (name in LOOKS and not any(arg.startswith(tuple(MAKING)) for arg in args)):
        assert everything(home) == before


@given(args=st.lists(st.sampled_from(sorted({word for name in leaves() for word in name.split()})) | typed, max_size=5))
@example(args=["--version", "x"])
@examples(20)
def test_words_that_are_no_command_are_answered(home: Path, args: list[str]) -> None:
    if not {"worker", "run", "doctor", "backup"} & set(args):
        in_order(call(args))
