"""Which Python Spark starts, and what is said where it has nothing of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import localqueue
from localqueue.spark import register
from localqueue.spark.task_python import WrongPython, use_python, wrong_python


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python in which nothing is installed, as `python3` of a PATH that has nothing else."""
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is put back, whoever sets it meanwhile
        monkeypatch.delenv(name)
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    monkeypatch.setenv("PATH", str(program.parent))
    return str(program)


def test_the_python_of_the_path_is_asked_although_it_is_a_link_to_the_same_file(bare: str) -> None:
    wrong = wrong_python(None)
    assert wrong is not None and wrong.startswith(f"Spark starts 'python3' ({bare})")
    assert "No module named 'localqueue'" in wrong
    assert wrong_python(sys.executable) is None
    assert wrong_python(None, str(Path(localqueue.__file__).parents[1])) is None, "Spark tells it where the package is"
    assert (wrong_python("no-python") or "").endswith("there is no such program here")


def test_the_python_of_an_archive_has_to_be_where_the_driver_runs_too(
    bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = wrong_python("./env/bin/python") or ""
    assert f"there is no such program here in {tmp_path}" in wrong
    assert "start the driver where the environment lies" in wrong


def test_a_session_of_ours_starts_what_is_named_or_this_python(bare: str) -> None:
    use_python({})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    use_python({"spark.pyspark.python": "python3"})
    assert os.environ["PYSPARK_PYTHON"] == "python3"


def test_register_says_that_a_running_session_starts_another_python(
    spark: Any, bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare)
    with pytest.raises(WrongPython, match=f"PYSPARK_PYTHON={sys.executable} before the session is made"):
        register(spark)
