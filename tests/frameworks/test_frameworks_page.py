"""The code of docs/frameworks.md runs as it stands: each block is the file that its first line names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text()
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))

DATABASE = """
SECRET_KEY = "of no use"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
"""
DJANGO_TASKS = """
import django
if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

@task
def charge(order):
    return f"charged {order}"
"""
DJANGO_PROGRAM = """
import sys, django
django.setup()
from shop.tasks import charge
if len(sys.argv) == 1:
    print(charge.enqueue(7).id)
else:
    print(charge.get_result(sys.argv[1]).return_value)
"""
FASTAPI_PROGRAM = """
from fastapi.testclient import TestClient
from shop.main import app
with TestClient(app) as client:
    job = client.post("/orders/7").json()
    print(client.get(f"/jobs/{job}").json())
"""
FLASK_PROGRAM = """
from shop import create_app, tasks
app = create_app()
job = app.test_client().post("/orders/7").text
assert app.test_cli_runner().invoke(args=["localqueue", "work", "--until-empty"]).exit_code == 0
print(tasks.job(job).result(timeout=5))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.multiprocess
def test_the_settings_for_django_run_a_task(folder: Path) -> None:
    (folder / "shop" / "settings.py").write_text(DATABASE + FILES["shop/settings.py"])
    (folder / "shop" / "tasks.py").write_text(DJANGO_TASKS)
    run(folder, "-m", "django", "check", "--fail-level", "WARNING")
    run(folder, "-m", "django", "migrate")
    job = run(folder, "-c", DJANGO_PROGRAM)
    run(folder, "-m", "django", "localqueue_worker", "--queue", "mail=3", "--queue", "default", "--until-empty")

    assert run(folder, "-c", DJANGO_PROGRAM, job) == "charged 7"


@pytest.mark.multiprocess
def test_the_application_of_fastapi_runs_a_task(folder: Path) -> None:
    (folder / "shop" / "main.py").write_text(FILES["shop/main.py"])

    assert run(folder, "-c", FASTAPI_PROGRAM) == "packed 7"


@pytest.mark.multiprocess
def test_the_application_of_flask_runs_a_task(folder: Path) -> None:
    (folder / "shop" / "__init__.py").write_text(FILES["shop/__init__.py"])

    assert run(folder, "-c", FLASK_PROGRAM).endswith("shop packed 7")
