"""Typed values as what JSON can hold, and back: datetime, UUID, Decimal, Enum, bytes, dataclasses, TypedDict and so on.

msgspec does the work; models of pydantic are written and read by themselves. What comes back is what went in: a value
that would return as something else is refused, because a task that gets text where it was sent a date fails far from
the mistake.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

#: Types whose values JSON holds as they are.
_PLAIN = frozenset({str, int, bool, float, type(None)})


class Misfit(Exception):
    """A value that does not fit its type; the text says why."""


def plain(value: Any, kind: Any) -> Any:
    """What JSON can hold of a value of type `kind`, or `Misfit`."""
    if type(value) in _PLAIN and (kind is Any or type(value) is kind) and type(value) is not float:  # which may be NaN
        return value
    try:
        written = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_write))
        back = rebuilt(written, kind)
    except Misfit:
        raise
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Misfit(str(error)) from error
    if not _equal(back, value) and (type(back) is not type(value) or _tells_apart(back, written, kind)):
        came = f"it would come back as {type(back).__name__} {_short(back)}"
        raise Misfit(f"{came}; annotate it with its type, and what is in it with theirs")
    return written


def rebuilt(written: Any, kind: Any) -> Any:
    """The value of type `kind` that was written so, or `Misfit`."""
    if kind is Any or (type(written) is kind and kind in _PLAIN):
        return written
    try:
        return msgspec.convert(written, kind, str_keys=True, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise Misfit(str(error)) from error


def _write(value: Any) -> Any:
    if is_model(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} objects can not be stored; pass what it is made of, or its id")


def _read(kind: Any, written: Any) -> Any:
    if isinstance(kind, type) and is_model(kind):
        return kind.model_validate(written)  # type: ignore[attr-defined]
    if isinstance(kind, type) and isinstance(written, kind):
        return written
    raise TypeError(f"a {getattr(kind, '__name__', kind)} can not be rebuilt from {type(written).__name__}")


def is_model(kind: type) -> bool:
    """Whether it is a model of pydantic, which nobody has to have installed."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _tells_apart(back: Any, written: Any, kind: Any) -> bool:
    """Whether `==` means something for such a value: two that were made of the same are equal."""
    return _equal(back, rebuilt(written, kind))


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # an __eq__ of anybody's making
        return False


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return "something that can not be printed"
    return text if len(text) <= 80 else f"{text[:77]}..."
