"""How a bug is planted: a few words of what a store does are changed, and changed back."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from localqueue.stores.redis import connection as redis_connection
from localqueue.stores.redis import schema as redis_schema
from localqueue.stores.sqlite import statements

Plant = Callable[[pytest.MonkeyPatch], None]


class Mutation(NamedTuple):
    """A bug, the store that has it, where it shows and as what. `plant` makes it, and the patch takes it out again."""

    bug: str
    store: str
    area: str
    kind: str
    plant: Plant


def reword(function: Any, old: str, new: str) -> Plant:
    """Have a function say something else, for everybody who has imported it."""
    function = inspect.unwrap(function)
    assert isinstance(function, FunctionType)

    def plant(patch: pytest.MonkeyPatch) -> None:
        text = textwrap.dedent(inspect.getsource(function))
        assert text.count(old) == 1, f"{function.__qualname__} says {text.count(old)} times {old!r}"
        made: dict[str, Any] = {}
        exec(compile(text.replace(old, new), function.__code__.co_filename, "exec"), function.__globals__, made)
        patch.setattr(function, "__code__", made[function.__name__].__code__)

    return plant


def restate(name: str, old: str, new: str) -> Plant:
    """Change a statement of SQLite."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        text = getattr(statements, name)
        assert text.count(old) == 1, f"{name} says {text.count(old)} times {old!r}"
        patch.setattr(statements, name, text.replace(old, new))

    return plant


def rewrite(old: str, new: str) -> Plant:
    """Change the functions of Redis, under names of their own: the server may have the right ones as well."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        text = redis_connection.LIBRARY.decode()
        assert text.count(old) == 1, f"the library says {text.count(old)} times {old!r}"
        right = redis_schema._DIGEST
        wrong = hashlib.sha256(f"{right}{old}{new}".encode()).hexdigest()[: len(right)]
        patch.setattr(redis_connection, "LIBRARY", text.replace(old, new).replace(right, wrong).encode())
        for name, function in redis_schema.FUNCTIONS.items():
            patch.setitem(redis_schema.FUNCTIONS, name, function.replace(right.encode(), wrong.encode()))

    return plant


def together(*plants: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in plants:
            one(patch)

    return plant
