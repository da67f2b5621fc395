"""Reads what Lua's `cmsgpack.pack` writes: the few types a message's extra values are made of."""

from __future__ import annotations

from struct import Struct
from typing import Any

_FIXED: dict[int, Struct] = {
    0xCA: Struct(">f"), 0xCB: Struct(">d"),
    0xCC: Struct(">B"), 0xCD: Struct(">H"), 0xCE: Struct(">I"), 0xCF: Struct(">Q"),
    0xD0: Struct(">b"), 0xD1: Struct(">h"), 0xD2: Struct(">i"), 0xD3: Struct(">q"),
}  # fmt: skip
_SIZES: dict[int, Struct] = {
    0xC4: Struct(">B"), 0xC5: Struct(">H"), 0xC6: Struct(">I"),
    0xD9: Struct(">B"), 0xDA: Struct(">H"), 0xDB: Struct(">I"),
    0xDC: Struct(">H"), 0xDD: Struct(">I"), 0xDE: Struct(">H"), 0xDF: Struct(">I"),
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def unpack(data: bytes) -> Any:
    return _read(data, 0)[0]


def _read(data: bytes, at: int) -> tuple[Any, int]:
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 0x100, at
    if kind < 0x90:
        return _map(data, at, kind & 0x0F)
    if kind < 0xA0:
        return _array(data, at, kind & 0x0F)
    if kind < 0xC0:
        end = at + (kind & 0x1F)
        return data[at:end], end
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _FIXED:
        fixed = _FIXED[kind]
        return fixed.unpack_from(data, at)[0], at + fixed.size
    size = _SIZES.get(kind)
    if size is None:
        raise ValueError(f"unknown type {kind:#x} in a packed value")
    count = size.unpack_from(data, at)[0]
    at += size.size
    if kind in (0xDC, 0xDD):
        return _array(data, at, count)
    if kind in (0xDE, 0xDF):
        return _map(data, at, count)
    return data[at : at + count], at + count


def _array(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _read(data, at)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, count: int) -> tuple[dict[Any, Any], int]:
    items = {}
    for _ in range(count):
        key, at = _read(data, at)
        items[key], at = _read(data, at)
    return items, at
