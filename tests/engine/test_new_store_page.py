"""The page on writing a store says how large the smallest ones are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import localqueue

STORES = Path(localqueue.__file__).parent / "stores"
PAGE = Path(__file__).parents[2] / "docs" / "new-store.md"


def lines(*files: Path) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def package(name: str) -> list[Path]:
    return [file for kind in ("py", "sql", "lua") for file in (STORES / name).rglob(f"*.{kind}")]


def test_the_sizes_on_the_page_are_those_of_the_files() -> None:
    said = [int(one.replace(",", "")) for one in re.findall(r"([\d,]{3,})\s+(?:lines|are)", PAGE.read_text())]
    actual = [
        lines(Path(__file__).with_name("dict_store.py")),
        lines(*package("lmdb")),
        lines(STORES / "lmdb" / "rows.py"),
    ]
    assert said == pytest.approx(actual, rel=0.1)
    packages = sorted(["sqlite", "lmdb", "postgres", "redis", "mongodb"], key=lambda name: lines(*package(name)))
    assert {*packages[:2]} == {"lmdb", "mongodb"}
