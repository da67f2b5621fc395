"""`dataclass`, `field`, `replace` and `KW_ONLY` of the standard library, without what they cost an import.

The standard library compiles up to six methods a class when its module is imported, and loads `inspect` to do so. For
the sixty classes behind a queue that was half of the time its import took. Here `__init__` is compiled when it is first
asked for, and the other methods are closures over the names of the fields. Type checkers read the real ones from
`_dataclass.pyi`; programs that ask (`dataclasses.fields`, `asdict`, `is_dataclass`, a dataclass that inherits) find
what a real one would show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any


class _Unset:
    def __repr__(self) -> str:
        return "<factory>"  # what signatures show


_UNSET = _Unset()


class KW_ONLY:
    """The annotation after which fields are keyword-only."""


class Field:
    """What a class says about one of its fields."""

    __slots__ = ("compare", "default", "default_factory", "hash", "init", "kw_only", "name", "repr", "type")

    name: str
    type: Any

    def __init__(
        self,
        default: Any,
        default_factory: Any = _UNSET,
        init: bool = True,
        repr: bool = True,
        hash: bool | None = None,
        compare: bool = True,
        kw_only: bool | None = None,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.hash = hash
        self.compare = compare
        self.kw_only = kw_only

    @property
    def is_hashed(self) -> bool:
        return self.compare if self.hash is None else self.hash


def field(*, default: Any = _UNSET, **options: Any) -> Any:
    return Field(default, **options)


def dataclass(
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
) -> Callable[[type], type]:
    def decorate(cls: Any) -> type:
        own = _own_fields(cls, kw_only)
        fields = tuple({one.name: one for one in (*_inherited(cls), *own)}.values())
        cls = _with_slots(cls, own) if slots else _with_defaults(cls, own)
        cls.__own_fields__ = fields
        cls.__dataclass_fields__ = _Description(cls, "__dataclass_fields__", frozen)
        cls.__dataclass_params__ = _Description(cls, "__dataclass_params__", frozen)
        cls.__match_args__ = tuple(one.name for one in fields if one.init and not one.kw_only)
        cls.__replace__ = replace
        if init:
            _add(cls, "__init__", _Init(cls, frozen))
        if repr:
            _add(cls, "__repr__", _repr_of([one.name for one in fields if one.repr]))
        if eq:
            _add_comparison(cls, fields, frozen)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refusals(cls, {one.name for one in fields})
            if slots:
                _add(cls, "__getstate__", _get_state)
                _add(cls, "__setstate__", _set_state)
        return cls

    return decorate


def replace(obj: object, /, **changes: object) -> object:
    for one in obj.__own_fields__:
        if one.init:
            changes.setdefault(one.name, getattr(obj, one.name))
        elif one.name in changes:
            raise ValueError(f"field {one.name} is not one that can be given, so replace() can not change it")
    return obj.__class__(**changes)


def field_names(kind: Any) -> tuple[str, ...]:
    """The names of a class's fields, in the order they are declared."""
    return tuple(one.name for one in kind.__own_fields__)


def _own_fields(cls: type, kw_only: bool) -> list[Field]:
    found = []
    for name, kind in cls.__annotations__.items():
        if kind in ("KW_ONLY", KW_ONLY):
            kw_only = True
            continue
        if str(kind).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = vars(cls).get(name, _UNSET)
        one = given if isinstance(given, Field) else Field(given)
        one.name, one.type = name, kind
        if one.kw_only is None:
            one.kw_only = kw_only
        if one.default is not _UNSET and type(one.default).__hash__ is None:
            raise ValueError(f"the default of field {name} could be changed: use default_factory")
        found.append(one)
    return found


def _inherited(cls: type) -> list[Field]:
    return [one for base in reversed(cls.__mro__[1:]) for one in vars(base).get("__own_fields__", ())]


def _with_defaults(cls: type, own: Iterable[Field]) -> type:
    for one in own:
        if one.default is not _UNSET:
            setattr(cls, one.name, one.default)
        elif one.name in vars(cls):
            delattr(cls, one.name)
    return cls


def _with_slots(cls: type, own: Iterable[Field]) -> type:
    """The class made anew: one that is there can not be given slots."""
    names = [one.name for one in own]
    contents = {name: held for name, held in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    taken = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    contents["__slots__"] = tuple(name for name in names if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, contents)
    made.__qualname__ = cls.__qualname__
    return made


def _add(cls: type, name: str, method: Any) -> None:
    """Give a class a method, unless it has one that was written by hand."""
    if name not in vars(cls):
        setattr(cls, name, method)


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _add_comparison(cls: Any, fields: tuple[Field, ...], frozen: bool) -> None:
    values = _values_of([one.name for one in fields if one.compare])
    hashed = _values_of([one.name for one in fields if one.is_hashed])

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(hashed(self))

    if vars(cls).get("__hash__") is None:  # Python sets None beside an __eq__ that was written by hand
        cls.__hash__ = __hash__ if frozen else None
    _add(cls, "__eq__", __eq__)


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)


def _refusals(cls: type, names: set[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """The `__setattr__` and `__delattr__` of a frozen class. A class that inherits may have attributes of its own."""

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise _frozen(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise _frozen(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _frozen(reason: str) -> Exception:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(reason)


def _get_state(self: object) -> list[object]:
    return [getattr(self, one.name) for one in self.__own_fields__]


def _set_state(self: object, state: list[object]) -> None:
    for one, held in zip(self.__own_fields__, state, strict=True):
        object.__setattr__(self, one.name, held)


class _Init:
    """Stands for `__init__` until it is asked for."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self.cls = cls
        self.frozen = frozen
        self.needs_no_code = all(one.default is not one.default_factory for one in cls.__own_fields__)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._compile() if instance is None else partial(self._make, instance)

    def _make(self, instance: Any, /, *args: Any, **options: Any) -> None:
        if args or options or not self.needs_no_code:
            self._compile()(instance, *args, **options)
            return
        self.needs_no_code = False  # many a class has one object, made of its defaults alone
        for one in self.cls.__own_fields__:
            object.__setattr__(instance, one.name, one.default_factory() if one.default is _UNSET else one.default)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()

    def _compile(self) -> Any:
        fields: tuple[Field, ...] = self.cls.__own_fields__
        known: dict[str, Any] = {"_set": object.__setattr__, "_unset": _UNSET}
        by_position, by_name, lines = ["self"], [], []
        for one in fields:
            name, given, held = one.name, one.name, one.name
            if one.default is not _UNSET:
                known[f"_default_{name}"] = one.default
                given = f"{name}=_default_{name}"
                held = name if one.init else f"_default_{name}"
            elif one.default_factory is not _UNSET:
                known[f"_new_{name}"] = one.default_factory
                given = f"{name}=_unset"
                held = f"_new_{name}() if {name} is _unset else {name}" if one.init else f"_new_{name}()"
            if one.init:
                (by_name if one.kw_only else by_position).append(given)
            lines.append(f"_set(self, {name!r}, {held})" if self.frozen else f"self.{name} = {held}")
        if hasattr(self.cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = ", ".join([*by_position, "*", *by_name] if by_name else by_position)
        body = "\n  ".join(lines or ["pass"])
        text = f"def make({', '.join(known)}):\n def __init__({parameters}):\n  {body}\n return __init__"
        made: dict[str, Any] = {}
        # In the module of the class, where its annotations mean something.
        exec(
            compile(text, f"<fields of {self.cls.__qualname__}>", "exec"), vars(sys.modules[self.cls.__module__]), made
        )
        init = made["make"](**known)
        init.__qualname__ = f"{self.cls.__qualname__}.__init__"
        init.__annotations__ = {one.name: one.type for one in fields if one.init} | {"return": None}
        self.cls.__init__ = init
        return init


class _Description:
    """Stands for what the standard library keeps about a dataclass until it is asked for."""

    def __init__(self, cls: Any, attribute: str, frozen: bool) -> None:
        self.cls = cls
        self.attribute = attribute
        self.frozen = frozen

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        import dataclasses

        like_it = dataclasses.make_dataclass(
            self.cls.__name__, [_as_the_library_says(one) for one in self.cls.__own_fields__], frozen=self.frozen
        )
        setattr(self.cls, self.attribute, getattr(like_it, self.attribute))
        return getattr(like_it, self.attribute)


def _as_the_library_says(one: Field) -> tuple[str, Any, Any]:
    import dataclasses

    options = {name: getattr(one, name) for name in ("init", "repr", "hash", "compare", "kw_only")}
    defaults = {name: getattr(one, name) for name in ("default", "default_factory") if getattr(one, name) is not _UNSET}
    return one.name, one.type, dataclasses.field(**options, **defaults)
