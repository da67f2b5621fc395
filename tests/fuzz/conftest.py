from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from localqueue.cli import app
from localqueue.cli.errors import CommandFailed
from localqueue.cli.pipeline_session import Cluster


@contextmanager
def _session(self: Cluster) -> Iterator[Any]:
    self.settings()
    raise CommandFailed("Spark is not started here")
    yield


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One tree of commands for all calls, no Spark, and no command of somebody else; a home that is empty."""
    home = tmp_path / "a" / "b" / "home"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    for name in ("LOCALQUEUE_TRACEBACK", "LOCALQUEUE_BACKEND", "LOCALQUEUE_URL", "LOCALQUEUE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(app, "build", cache(app.build))
    monkeypatch.setattr(typer.main, "get_command", cache(typer.main.get_command))
    monkeypatch.setattr(Cluster, "session", _session)
    monkeypatch.setattr("localqueue.cli.shell.run_command", lambda command, value: None)
    return home
