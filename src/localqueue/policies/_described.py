"""The printable face every policy shares."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast


class Described:
    """A policy prints as its public fields, in the order they are declared."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name) for field in fields(cast(Any, self)) if not field.name.startswith("_")
        }


def class_name(adapter: object | None) -> str | None:
    """Name an attached adapter without printing what is inside it."""
    return None if adapter is None else type(adapter).__name__
