"""Which sockets Spark is told to use for its Python processes."""

from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from localqueue.spark.local_sockets import ENABLED, FOLDER, socket_settings

PROGRAM = """
import os, sys
from localqueue.spark.local_sockets import FOLDER, socket_settings
folder = socket_settings("local[2]", {})[FOLDER]
open(f"{folder}/left.sock", "w").close()
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder, os.path.exists(folder))
"""


def test_a_local_session_has_them_in_a_folder_of_its_own() -> None:
    found = socket_settings("local[2]", {})
    assert found[ENABLED] == "true"
    assert stat.S_IMODE(Path(found[FOLDER]).stat().st_mode) == 0o700


def test_the_folder_goes_with_the_process_that_made_it() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    folder, was_there_after_the_fork = said.stdout.split()
    assert was_there_after_the_fork == "True"
    assert not Path(folder).exists()


def test_a_cluster_and_what_the_user_has_said_are_left_alone() -> None:
    assert socket_settings("spark://host:7077", {}) == {}
    assert socket_settings(None, {"spark.master": "yarn"}) == {}
    assert socket_settings("local[2]", {ENABLED: "false"}) == {}


def test_a_folder_whose_name_is_too_long_for_a_socket_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 10)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert socket_settings("local[2]", {}) == {}
    assert list(deep.iterdir()) == []
