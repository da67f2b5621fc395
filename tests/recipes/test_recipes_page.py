"""Every block of docs/recipes.md runs as it stands, and every recipe says what it does not promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL))
BLOCKS = [
    pytest.param(block, id=f"{title}, block {number}")
    for title, text in SECTIONS.items()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_page_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    exec(compile(block, str(PAGE), "exec"), {"__name__": "recipe"})


@pytest.mark.parametrize("title", SECTIONS)
def test_a_recipe_has_code_a_guarantee_a_failure_window_and_your_part(title: str) -> None:
    text = SECTIONS[title]
    assert "```python" in text
    assert re.findall(r"^\*\*(.+?):\*\*", text, flags=re.MULTILINE) == ["Guarantee", "Failure window", "Yours"]


def test_the_page_has_the_recipes_of_the_roadmap_that_concern_the_queue() -> None:
    assert len(BLOCKS) >= len(SECTIONS) >= 10
