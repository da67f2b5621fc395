from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command works in an empty directory, with an empty data and config directory below it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    for name in ("LOCALQUEUE_TRACEBACK", "LOCALQUEUE_BACKEND", "LOCALQUEUE_URL", "LOCALQUEUE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    return home
