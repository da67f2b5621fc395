"""Which values a format carries unchanged, and where one goes wrong."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from reprlib import repr as short
from typing import Any

from localqueue._dataclass import dataclass

OTHER_CODEC = "pass codec=PickleCodec(trusted=True)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadShape:
    """The exact types a format returns as they were given."""

    scalars: frozenset[type]
    keys: frozenset[type]
    takes_subclasses: bool
    takes_infinity: bool
    integers: range | None


JSON_SHAPE = PayloadShape(
    scalars=frozenset({str, int, float, bool, type(None)}),
    keys=frozenset({str}),
    takes_subclasses=True,
    takes_infinity=False,
    integers=None,
)
MSGPACK_SHAPE = PayloadShape(
    scalars=frozenset({str, int, float, bool, type(None), bytes}),
    keys=frozenset({str, int, float, bool, type(None), bytes}),
    takes_subclasses=False,
    takes_infinity=True,
    integers=range(-(2**63), 2**64),
)


def is_plain(value: Any, shape: PayloadShape) -> bool:
    """Whether `value` is built of the shape's exact types only."""
    kind = type(value)
    scalars = shape.scalars
    if kind is dict:
        if not shape.keys.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list:
        return kind in scalars
    for item in value:  # noqa: SIM110 - a generator is slower and halves the depth that fits
        if type(item) not in scalars and not is_plain(item, shape):
            return False
    return True


def describe_fault(value: Any, shape: PayloadShape, error: Exception | None) -> str:
    """Say what in `value` the format can not carry, where it is, and what to do instead."""
    try:
        for fault in _faults(value, shape, "$", ()):
            return fault
    except (RecursionError, ValueError) as unprintable:
        error = unprintable
    if isinstance(error, RecursionError):
        return "it is nested too deeply; flatten it, or send the parts as messages of their own"
    reason = "it does not come back equal" if error is None else str(error) or repr(error)
    return f"{reason}; convert it to plain values, or {OTHER_CODEC}"


def _faults(value: Any, shape: PayloadShape, path: str, parents: tuple[int, ...]) -> Iterator[str]:
    if id(value) in parents:
        yield f"circular reference at {path}; send the inner object's id instead"
    elif isinstance(value, dict) and _accepts(value, dict, shape):
        inside = (*parents, id(value))
        for key, item in value.items():
            yield from _key_faults(key, shape, path)
            yield from _faults(item, shape, _step(path, key), inside)
    elif isinstance(value, list) and _accepts(value, list, shape):
        inside = (*parents, id(value))
        for index, item in enumerate(value):
            yield from _faults(item, shape, f"{path}[{index}]", inside)
    else:
        yield from _scalar_faults(value, shape, path)


def _accepts(value: Any, kind: type, shape: PayloadShape) -> bool:
    return shape.takes_subclasses or type(value) is kind


def _step(path: str, key: object) -> str:
    named = isinstance(key, str) and key.isidentifier() and len(key) < 30
    return f"{path}.{key}" if named else f"{path}[{short(key)}]"


def _key_faults(key: object, shape: PayloadShape, path: str) -> Iterator[str]:
    if type(key) in shape.keys or (shape.takes_subclasses and isinstance(key, str)):
        if fault := _surrogate_fault(key, shape, f"a key of {path}"):
            yield fault
        elif isinstance(key, float) and math.isnan(key):
            yield f"key NaN at {path} does not equal itself; use a string key"
    elif str in shape.keys and isinstance(key, bool | int | float | type(None)):
        back = json.dumps(key)
        yield (
            f"key {short(key)} ({type(key).__name__}) at {path} would come back as {back!r}; "
            f"use string keys, or {OTHER_CODEC}"
        )
    else:
        yield (f"key {short(key)} ({type(key).__name__}) at {path} is not supported; use string keys, or {OTHER_CODEC}")


def _scalar_faults(value: Any, shape: PayloadShape, path: str) -> Iterator[str]:
    kind = type(value).__name__
    if isinstance(value, tuple):
        yield (f"a {kind} at {path} would come back as a list; convert it with list(...), or {OTHER_CODEC}")
    elif isinstance(value, set | frozenset):
        yield f"a {kind} at {path}; convert it with sorted(...) or list(...), or {OTHER_CODEC}"
    elif isinstance(value, bytes | bytearray | memoryview) and type(value) not in shape.scalars:
        way_out = (
            "convert it with bytes(...)"
            if bytes in shape.scalars
            else "encode it as text, or pass codec=BytesCodec() or codec=MsgpackCodec()"
        )
        yield f"{kind} at {path}; {way_out}"
    elif isinstance(value, float) and math.isnan(value):
        yield f"NaN at {path}; send None or a string instead"
    elif isinstance(value, float) and math.isinf(value) and not shape.takes_infinity:
        yield f"{float(value)!r} at {path}; send None or a string instead"
    elif fault := _integer_fault(value, shape, path) or _surrogate_fault(value, shape, path):
        yield fault
    elif type(value) not in shape.scalars:
        plain = next((base for base in shape.scalars if isinstance(value, base)), None)
        if plain is None or not shape.takes_subclasses:
            yield f"{kind} at {path}; convert it to a plain value first, or {OTHER_CODEC}"


def _integer_fault(value: object, shape: PayloadShape, path: str) -> str | None:
    if not isinstance(value, int):
        return None
    if shape.integers is not None:
        if int(value) in shape.integers:
            return None
        return f"an integer at {path} does not fit 64 bits; send it as a string"
    limit = sys.get_int_max_str_digits()
    # 10 ** limit is the smallest integer too long to write; comparing bits avoids writing it.
    if limit and value.bit_length() > limit * math.log2(10):
        return f"an integer at {path} has more than the interpreter's limit of {limit} digits; send it as hex(...) text"
    return None


def _surrogate_fault(value: object, shape: PayloadShape, path: str) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if not shape.takes_subclasses:
            return f"a lone surrogate in {path} is not valid text; send bytes instead"
        if joined != value:
            return f"a split surrogate pair in {path} would come back as one character; join it"
    return None
