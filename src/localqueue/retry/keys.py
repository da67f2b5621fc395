"""Retry keys from the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

KeyFunction = Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], str]

_MISSING = object()


def key_from_argument(name: str) -> KeyFunction:
    """A `key_fn` that reads the key from the argument `name`, however it was passed."""
    _require("argument name", name)

    def key(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        value = _argument(fn, args, kwargs, name)
        if value is _MISSING or value is None:
            raise ValueError(f"could not derive a persistent retry key from argument {name!r}")
        return str(value)

    return key


def key_from_attr(argument_name: str, attribute_name: str, *, prefix: str | None = None) -> KeyFunction:
    """A `key_fn` that reads an attribute of an argument. `prefix` keeps the keys of different tasks apart."""
    _require("argument name", argument_name)
    _require("attribute name", attribute_name)
    if prefix is not None:
        _require("prefix", prefix)

    def key(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        argument = _argument(fn, args, kwargs, argument_name)
        if argument is _MISSING:
            raise ValueError(f"could not derive a persistent retry key from argument {argument_name!r}")
        value = getattr(argument, attribute_name, None)
        if value is None:
            raise ValueError(f"could not derive a persistent retry key from {argument_name}.{attribute_name}")
        return str(value) if prefix is None else f"{prefix}:{value}"

    return key


def idempotency_key_from_id(argument_name: str, *, prefix: str | None = None) -> KeyFunction:
    """A `key_fn` that reads the attribute `id` of an argument."""
    return key_from_attr(argument_name, "id", prefix=prefix)


def _require(what: str, text: str) -> None:
    if not text:
        raise ValueError(f"{what} cannot be empty")


def _argument(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Any:
    if name in kwargs:
        return kwargs[name]
    try:
        bound = inspect.signature(fn).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return _MISSING
    bound.apply_defaults()
    return bound.arguments.get(name, _MISSING)
