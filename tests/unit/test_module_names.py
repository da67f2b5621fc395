"""A module is a noun of the domain; a function is a verb."""

from __future__ import annotations

from pathlib import Path

import localqueue

PACKAGE = Path(localqueue.__file__).parent
NOUNS = {
    "dispatch/pending.py",
    "policies/ordering.py",
    "policies/routing.py",
    "testing/fencing.py",
    "testing/ordering.py",
}


def test_no_module_is_named_after_an_activity() -> None:
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*ing.py")
        if not {"stores", "retry"} & set(path.relative_to(PACKAGE).parts)
    }
    assert named == NOUNS
