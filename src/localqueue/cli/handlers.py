"""Finding what a user names as `module:name`: a function, or an object of some class."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from localqueue.cli.errors import CommandFailed

T = TypeVar("T")


def load_handler(spec: str, code: int) -> Callable[..., Any]:
    """The function, looked up as `python -m` would: the working directory comes first.

    `code` is the exit code of a spec that leads nowhere.
    """
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path) or ":" in path:
        raise CommandFailed(f"handler must use 'module:function' format, not {spec!r}", code)
    found = look_up(load_module(module_name, code), path, code)
    if not callable(found):
        raise CommandFailed(f"handler is not callable: {spec}", code)
    return found  # type: ignore[no-any-return]


def load_object(spec: str, kind: type[T], code: int) -> T:
    """The object of a class that a user names as `module:name`; without a name, the only one of the module."""
    module_name, colon, path = spec.partition(":")
    if not module_name or (colon and not path):
        raise CommandFailed(f"{kind.__name__} is named as 'module:name', not {spec!r}", code)
    module = load_module(module_name, code)
    if path:
        found = look_up(module, path, code)
        if not isinstance(found, kind):
            raise CommandFailed(f"{spec} is a {type(found).__name__} and no {kind.__name__}", code)
        return found
    all_of_them = {name: one for name, one in vars(module).items() if isinstance(one, kind)}
    if len({id(one) for one in all_of_them.values()}) != 1:
        listed = f"has {', '.join(sorted(all_of_them))}" if all_of_them else "has none"
        raise CommandFailed(
            f"which {kind.__name__} of {module_name!r} is meant? It {listed}; write {module_name}:name", code
        )
    return next(iter(all_of_them.values()))


def load_module(name: str, code: int) -> Any:
    """A module, looked up as `python -m` would."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except Exception as error:
        raise CommandFailed(f"can not import {name!r}: {type(error).__name__}: {error}", code) from error


def look_up(module: Any, path: str, code: int) -> Any:
    """What a module has under a dotted name."""
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise CommandFailed(str(error), code) from None
    return found


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def called_in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler as a plain function: a coroutine function gets an event loop for each call."""
    if not is_async(handler):
        return handler
    import asyncio

    return lambda value: asyncio.run(handler(value))
