"""The Python that Spark starts: on the driver to plan reads and hold streams, on executors to run tasks.

It is the program that PYSPARK_PYTHON names, or `python3` of the PATH, and not the one that runs the driver. With
`venv/bin/python app.py`, and the environment not activated, that is another one, in which nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "PYSPARK_PYTHON"
SETTING = "spark.pyspark.python"
_DEFAULT = "python3"
EXECUTOR_PATH = "spark.executorEnv.PYTHONPATH"
_PATIENCE = 60.0


class WrongPython(RuntimeError):
    """The Python that Spark starts does not have the package; the message says how to name another one."""


def said_python(conf: Mapping[str, str]) -> str | None:
    """What the settings or the environment name."""
    return conf.get(SETTING) or os.environ.get(VARIABLE)


def use_python(conf: Mapping[str, str]) -> None:
    """Have the Spark that is started next start the Python that is named, or this one."""
    os.environ[VARIABLE] = said_python(conf) or sys.executable


def need_package(spark: SparkSession) -> None:
    """WrongPython where the Python that this session starts does not have the package."""
    wrong = wrong_python(spark.sparkContext.pythonExec, spark.conf.get(EXECUTOR_PATH, None))
    if wrong is not None:
        raise WrongPython(f"{wrong}: {way_out('before the session is made')}")


def wrong_python(said: str | None, search: str | None = None) -> str | None:
    """Why the data source would not run in the Python that Spark starts when it is told this; None where it would.

    `search` are folders that Spark adds to its PYTHONPATH.
    """
    named = said or _DEFAULT
    program = shutil.which(named)
    if program is None:
        where = ""
        if os.path.dirname(named) and not os.path.isabs(named):
            where = f" in {os.getcwd()} (--archives unpacks for executors: start the driver where the environment lies)"
        return f"Spark starts {named!r} for the data source and for tasks, and there is no such program here{where}"
    if _is_this(program):
        return None
    try:
        asked = subprocess.run(
            [program, "-c", "import localqueue"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (search, os.environ.get("PYTHONPATH"))))},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        last_word = str(error)
    else:
        if asked.returncode == 0:
            return None
        last_word = (asked.stderr.strip().splitlines() or [f"it ended with {asked.returncode}"])[-1]
    return (
        f"Spark starts {named!r} ({program}) for the data source and for tasks, and not {sys.executable}, "
        f"and it can not import localqueue ({last_word})"
    )


def way_out(when: str) -> str:
    return (
        f"set {VARIABLE}={sys.executable} {when}, activate the virtual environment, or give spark-submit "
        f"--conf {SETTING}=..."
    )


def _is_this(program: str) -> bool:
    """Whether it is the Python of this process. Those of two environments may be links to one file."""
    mine = sys.executable
    return os.path.realpath(program) == os.path.realpath(mine) and os.path.realpath(
        os.path.dirname(program)
    ) == os.path.realpath(os.path.dirname(mine))
