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
from collections.abc import Callable, Mapping
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
    "docs/workflows.md",
)

#: What a checker reports: by file, the lines with what is said about them.
Reports: TypeAlias = Mapping[str, Mapping[int, str]]


def mypy(folder: Path) -> Reports:
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


def pyright(folder: Path) -> Reports:
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


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_what_is_right_passes_and_what_is_wrong_is_reported(checker: Callable[[Path], Reports], tmp_path: Path) -> None:
    """A checker runs once, for all files: in a test for each, several test processes would run it."""
    for path in CASES:
        _write(tmp_path / path.relative_to(HERE), path.read_text())
    for page in PAGES:
        _write((tmp_path / page).with_suffix(".py"), _python_of((ROOT / page).read_text()))
    reports = checker(tmp_path)
    wrong = {f"wrong/{path.name}": _marked(path) for path in WRONG}
    assert all(wrong.values())
    assert {file: said for file, said in reports.items() if file not in wrong} == {}
    assert {file: set(reports.get(file, {})) for file in wrong} == wrong


def _marked(path: Path) -> set[int]:
    return {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# error")}


def _write(path: Path, code: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)


def _python_of(page: str) -> str:
    """The blocks of a page as a module, in the lines where they stand on the page."""
    code = ""
    for block in CODE.finditer(page):
        code += "\n" * (page.count("\n", 0, block.start(1)) - code.count("\n")) + block[1]
    return code


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
