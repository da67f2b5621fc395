"""The table of stores says the same to programs, to readers and in the code."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores import capabilities, port
from localqueue.stores.url import BACKENDS

ROOT = Path(__file__).parents[2]
DRIVERS = {"psycopg", "psycopg_pool", "redis", "pymongo", "bson", "gridfs", "sqlite3", "lmdb"}


def test_the_page_holds_the_table_as_it_is_printed() -> None:
    assert capabilities.as_markdown() in (ROOT / "docs" / "stores.md").read_text()


@pytest.mark.multiprocess
def test_the_module_prints_the_table_and_loads_no_driver() -> None:
    code = "import runpy, sys; runpy.run_module('localqueue.stores'); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == capabilities.as_markdown()
    assert DRIVERS.isdisjoint(done.stderr.split())


def test_every_store_is_in_the_table_under_its_name_and_with_its_addresses() -> None:
    table = capabilities.as_dict()
    assert list(table) == list(BACKENDS)
    for backend, (_, name, schemes) in BACKENDS.items():
        assert table[backend]["store"] == name
        said = set(re.findall(r"`([\w+]+)://", table[backend]["address"]))
        assert said <= set(schemes)


def test_every_cell_says_something_and_keeps_to_its_cell() -> None:
    for row in capabilities.CAPABILITIES:
        for value in row.as_dict().values():
            assert value.strip()
            assert "|" not in value
            assert "\n" not in value


def test_the_table_says_who_joins_a_transaction() -> None:
    from importlib import import_module

    for backend, (module, name, _) in BACKENDS.items():
        if backend == "memory":
            continue  # inherits the method, and refuses
        joins = hasattr(getattr(import_module(module), name), "commit_within")
        assert (capabilities.as_dict()[backend]["joins"] != "no") == joins, backend


# no driver in the port


def test_the_port_imports_no_driver_and_names_none() -> None:
    tree = ast.parse(Path(port.__file__).read_text())
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported
    assert {name.split(".")[0] for name in imported}.isdisjoint(DRIVERS)
    assert not any(name.startswith("localqueue.stores") for name in imported), "the port depends on no store"
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert names.isdisjoint(DRIVERS)


def _types_in(annotation: object) -> typing.Iterator[object]:
    yield annotation
    arguments = typing.get_args(annotation)
    for argument in arguments:
        yield from _types_in(argument)


def test_no_type_of_a_driver_is_in_any_signature_of_the_port() -> None:
    seen = 0
    for name, member in vars(port).items():
        if not inspect.isclass(member) or member.__module__ != port.__name__:
            continue
        functions = [value for value in vars(member).values() if inspect.isfunction(value)]
        functions += [value.fget for value in vars(member).values() if isinstance(value, property) and value.fget]
        for hints in map(_hints_of, (member, *functions)):
            for annotation in hints.values():
                for one in _types_in(annotation):
                    seen += 1
                    module = str(getattr(one, "__module__", ""))
                    assert module.split(".")[0].lstrip("_") not in DRIVERS, (name, one)
                    assert not module.startswith("localqueue.stores.") or module == port.__name__, (name, one)
    assert seen > 100


def test_any_stands_only_where_the_user_brings_the_connection() -> None:
    """Behind `Any` a driver's object could hide."""
    loose = {
        f"{name}.{attribute}"
        for name, member in vars(port).items()
        if inspect.isclass(member) and member.__module__ == port.__name__ and "NamedTuple" not in str(member.__mro__)
        for attribute, value in vars(member).items()
        if inspect.isfunction(value) and typing.Any in _hints_of(value).values()
    }
    assert loose == {"JoinsTransactions.commit_within"}


def _hints_of(member: Any) -> dict[str, Any]:
    """Annotations, also those with what the port imports for type checkers only: asyncio would cost every queue."""
    return typing.get_type_hints(member, localns={"Future": asyncio.Future})


@pytest.mark.multiprocess
@pytest.mark.parametrize("module", ["localqueue", "localqueue.stores.port", "localqueue.stores", "localqueue.queue"])
def test_a_driver_is_not_loaded_before_its_store_is(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (DRIVERS - {"sqlite3"}).isdisjoint(done.stdout.split())
