"""The face every policy shares: frozen, compared and printed by its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def policy(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A frozen dataclass with slots whose comparison and printing are those of `Described`.

    Those of `dataclass` are compiled for each class, which for fifty policies is what importing a queue waits for.
    """
    return dataclass(frozen=True, slots=True, repr=False, eq=False, kw_only=kw_only)


class Described:
    """A policy prints as its public fields, in the order they are declared."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self._fields(lambda field: not field.name.startswith("_"))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields(_is_compared) == other._fields(_is_compared)

    def __hash__(self) -> int:
        return hash(tuple(self._fields(_is_hashed).values()))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self._fields(lambda field: field.repr).items())
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _fields(self, wanted: Callable[[Field[Any]], bool]) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self)) if wanted(field)}


def _is_compared(field: Field[Any]) -> bool:
    return field.compare


def _is_hashed(field: Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


def class_name(adapter: object | None) -> str | None:
    """Name an attached adapter without printing what is inside it."""
    return None if adapter is None else type(adapter).__name__
