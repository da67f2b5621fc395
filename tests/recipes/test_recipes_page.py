"""The Python of the documentation runs as it stands, and every recipe says what it does not promise."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

import localqueue.contracts
from localqueue import PersistentQueue, Tasks, errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)

SERVER_CODE = re.compile(r"^```python (postgres|redis|mongodb)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
FIXTURES = {"postgres": "postgres", "redis": "redis_server", "mongodb": "mongodb"}
ADDRESSES = {
    "postgres": "postgresql://localhost:5432/jobs",
    "redis": "redis://localhost:6379/0",
    "mongodb": "mongodb://localhost:27017/jobs",
}

RECIPES = (DOCS / "recipes.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", RECIPES, flags=re.MULTILINE | re.DOTALL))
RECIPE_BLOCKS = [
    pytest.param(block, id=f"{title}, block {number}")
    for title, text in SECTIONS.items()
    for number, block in enumerate(CODE.findall(text), 1)
]
CONTINUOUS_PAGES = (
    "README.md",
    "docs/async.md",
    "docs/brokers.md",
    "docs/events.md",
    "docs/limits.md",
    "docs/notification.md",
    "docs/quickstart.md",
    "docs/queue.md",
    "docs/schedules.md",
    "docs/stores.md",
    "docs/retry.md",
    "docs/tasks.md",
    "docs/tracing.md",
    "docs/workers.md",
    "docs/workflows.md",
)


@pytest.fixture(autouse=True)
def a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.mark.parametrize("block", RECIPE_BLOCKS)
def test_a_recipe_runs_by_itself(block: str) -> None:
    exec(compile(block, "docs/recipes.md", "exec"), {"__name__": "recipe"})


@pytest.mark.parametrize("name", CONTINUOUS_PAGES)
def test_the_blocks_of_a_page_run_one_after_another(name: str, tmp_path: Path) -> None:
    page = (ROOT / name).read_text()
    blocks = list(CODE.finditer(page))
    assert blocks
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        above = "\n" * page.count("\n", 0, block.start(1))  # so that a traceback has the line of the page
        exec(compile(above + block[1], name, "exec"), namespace)
    for value in namespace.values():
        if isinstance(value, PersistentQueue | Tasks):
            value.close()


@pytest.mark.server
@pytest.mark.parametrize("kind", FIXTURES)
def test_the_blocks_for_a_server_run_one_after_another(kind: str, request: pytest.FixtureRequest) -> None:
    text = "".join((DOCS / page).read_text() for page in ("stores.md", "retry.md", "notification.md"))
    blocks = [block for name, block in SERVER_CODE.findall(text) if name == kind]
    assert blocks
    namespace: dict[str, Any] = {"__name__": "page"}
    server = request.getfixturevalue(FIXTURES[kind])
    for block in blocks:
        assert ADDRESSES[kind] in block
        exec(compile(block.replace(ADDRESSES[kind], server.url), "docs", "exec"), namespace)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_recipe_has_code_a_guarantee_a_failure_window_and_your_part(title: str) -> None:
    text = SECTIONS[title]
    assert "```python" in text
    assert re.findall(r"^\*\*(.+?):\*\*", text, flags=re.MULTILINE) == ["Guarantee", "Failure window", "Yours"]


def test_the_page_has_the_recipes_of_the_roadmap_that_concern_the_queue() -> None:
    assert len(RECIPE_BLOCKS) >= len(SECTIONS) >= 10


def test_the_index_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)]+)\)", (DOCS / "index.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} <= linked


def test_the_readme_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = (ROOT / "README.md").read_text().split("\n## Install\n")[1].split("\n## ")[0]
    assert set(project["optional-dependencies"]) - {"test"} <= set(re.findall(r"\w+", install))


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_error_is_in_the_table_of_errors() -> None:
    table = (DOCS / "queue.md").read_text().split("\n## Errors\n")[1]
    named = set(re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE))
    defined = {
        name for name, one in vars(errors).items() if isinstance(one, type) and one.__module__ == errors.__name__
    }
    assert named == defined - {"QueueError"}


def test_the_page_and_the_package_show_a_store_author_the_same_example() -> None:
    (example,) = (block for block in CODE.findall((DOCS / "stores.md").read_text()) if "class TestMyStore" in block)
    example = example[example.index("class TestMyStore") :]
    assert textwrap.indent(example, "    ") in (localqueue.contracts.__doc__ or "")
