"""`import localqueue` stays light: optional drivers load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest


def modules_loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(run.stdout.split())


@pytest.mark.parametrize("driver", ["lmdb", "msgpack", "tenacity"])
def test_importing_the_package_does_not_load_an_optional_driver(driver: str) -> None:
    loaded = modules_loaded_by("import localqueue")

    assert "localqueue" in loaded
    assert driver not in loaded
