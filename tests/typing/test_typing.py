"""Type checkers pass what is right, and report what is wrong, in the line where it stands.

`right/*.py` has to pass both checkers. In `wrong/*.py` both have to report the lines that end in `# error`, and no
others. The Python of the documentation has to pass, too; there functions may be without annotations.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CODE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
RIGHT = sorted(HERE.glob("right/*.py"))
WRONG = sorted(HERE.glob("wrong/*.py"))
CASES = [*RIGHT, *WRONG]
PAGES = (
    "README.md",
    "docs/async.md",
    "docs/events.md",
    "docs/notification.md",
    "docs/queue.md",
    "docs/quickstart.md",
    "docs/retry.md",
    "docs/schedules.md",
    "docs/tasks.md",
    "docs/workers.md",
)
CHECKERS = ("mypy", "pyright")

#: What a checker reports: by file, the lines with what is said about them.
Reports: TypeAlias = Mapping[str, Mapping[int, str]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Reports]:
    """Each checker runs once, for all files."""
    folder = tmp_path_factory.mktemp("typing")
    for path in CASES:
        _write(folder / path.relative_to(HERE), path.read_text())
    for page in PAGES:
        _write((folder / page).with_suffix(".py"), _python_of((ROOT / page).read_text()))
    return {"mypy": _mypy(folder), "pyright": _pyright(folder)}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_what_is_right_passes(reports: Mapping[str, Reports], checker: str, path: Path) -> None:
    assert reports[checker].get(f"right/{path.name}", {}) == {}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_what_is_wrong_is_reported(reports: Mapping[str, Reports], checker: str, path: Path) -> None:
    lines = path.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    assert marked
    assert set(reports[checker].get(f"wrong/{path.name}", {})) == marked


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("name", PAGES)
def test_the_python_of_a_page_passes(reports: Mapping[str, Reports], checker: str, name: str) -> None:
    assert reports[checker].get(str(Path(name).with_suffix(".py")), {}) == {}


def _write(path: Path, code: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)


def _python_of(page: str) -> str:
    """The blocks of a page as a module, in the lines where they stand on the page."""
    code = ""
    for block in CODE.finditer(page):
        code += "\n" * (page.count("\n", 0, block.start(1)) - code.count("\n")) + block[1]
    return code


def _mypy(folder: Path) -> Reports:
    settings = folder / "mypy.ini"
    settings.write_text(
        "[mypy]\nstrict = true\nfollow_imports = silent\n"
        "[mypy-docs.*]\nallow_redefinition = true\ndisallow_untyped_defs = false\ndisallow_untyped_calls = false\n"
    )
    ran = _run(
        "mypy", "--config-file", str(settings), "--cache-dir", str(folder / "cache"), "--output", "json",
        "--namespace-packages", "--explicit-package-bases", ".",
        folder=folder, environment={"MYPYPATH": str(ROOT / "src")},
    )  # fmt: skip
    found = [json.loads(line) for line in ran.splitlines() if line.startswith("{")]
    return _by_line((one["file"], one["line"], one) for one in found)


def _pyright(folder: Path) -> Reports:
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
    ran = _run(
        "pyright", "--project", str(settings), "--pythonpath", sys.executable, "--outputjson",
        folder=folder, environment={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )  # fmt: skip
    report = json.loads(ran[ran.index("{") :])
    assert report["summary"]["filesAnalyzed"] == len(CASES) + len(PAGES)
    return _by_line(
        (str(Path(one["file"]).relative_to(folder.resolve())), one["range"]["start"]["line"] + 1, one)
        for one in report["generalDiagnostics"]
    )


def _run(checker: str, *words: str, folder: Path, environment: dict[str, str]) -> str:
    pytest.importorskip(checker)
    ran = subprocess.run(
        [sys.executable, "-m", checker, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return ran.stdout


def _by_line(found: Any) -> Reports:
    reports: dict[str, dict[int, str]] = {}
    for file, line, one in found:
        if one["severity"] == "error":
            reports.setdefault(file, {})[line] = one["message"]
    return reports
