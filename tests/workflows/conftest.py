"""The stores that runs live in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores import OPENERS, Place, new_place
from tests.workflows.workplace import Log


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where the store of a test is: of the kind it is run for, or SQLite."""
    return new_place(getattr(request, "param", "sqlite"), tmp_path)


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with new_place(request.param, tmp_path).open() as opened:
        yield opened


@pytest.fixture
def log() -> Log:
    return Log()
