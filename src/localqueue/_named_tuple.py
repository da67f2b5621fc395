"""`NamedTuple` of `typing`, without what it costs an import.

`typing` compiles the annotation of every field when a class is made, which takes twice as long as the rest. Here they
stay the texts they are in the source, and `get_type_hints` reads those as well. Type checkers read the real one from
`_named_tuple.pyi`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any


class _Fields(type):
    def __new__(meta, name: str, bases: tuple[type, ...], contents: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(meta, name, bases, contents)
        types = contents.pop("__annotations__")
        defaults = [contents.pop(field) for field in types if field in contents]
        made: Any = namedtuple(name, types, defaults=defaults, module=contents.pop("__module__"))  # type: ignore[misc]
        made.__annotations__ = made.__new__.__annotations__ = types
        for key, held in contents.items():
            setattr(made, key, held)
        return made


class NamedTuple(metaclass=_Fields):
    """The base of a class whose annotations are the fields of a tuple; those with a default come last."""
