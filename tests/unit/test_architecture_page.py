"""The page on the architecture says what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def layers() -> dict[str, int]:
    """The layer of each module, counted from the top, as the import contract has them."""
    (contract,) = (one for one in CONTRACTS if one["name"] == "layers")
    levels = [re.findall(r"localqueue\.(\w+)", layer) for layer in contract["layers"]]
    return {name: number for number, names in enumerate(levels) for name in names}


def rows() -> list[str]:
    """The modules that the table of layers names, from the top."""
    _, _, section = PAGE.partition("\n## Layers\n")
    table, _, _ = section.partition("\n`guarantees` lies below")
    firsts = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    return [name for first in firsts for name in re.findall(r"`(\w+)(?:/|\.py)`", first)]


def test_the_table_of_layers_has_every_module_of_the_import_contract() -> None:
    assert sorted(rows()) == sorted(layers())


def test_the_table_of_layers_is_in_the_order_of_the_import_contract() -> None:
    numbers = [layers()[name] for name in rows()]
    assert numbers == sorted(numbers)


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
