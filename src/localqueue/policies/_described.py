"""The face every policy shares: printable by its fields."""

from __future__ import annotations

from typing import Any

from localqueue._dataclass import field_names


class Described:
    """A policy prints as its public fields, in the order they are declared."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in field_names(type(self)) if not name.startswith("_")}


def class_name(adapter: object | None) -> str | None:
    """Name an attached adapter without printing what is inside it."""
    return None if adapter is None else type(adapter).__name__
