"""Operations that several stores are told: calls of the port in which messages go by labels (`#1`, `#2`, ...), because
every store mints its own ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from localqueue.stores.port import Changes


class Operation(NamedTuple):
    """One call. `advance` moves the clock; everything else is a verb of the port."""

    verb: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}
    labels: tuple[str, ...] = ()  # of messages whose ids the call itself makes

    def __str__(self) -> str:
        given = [shown(one) for one in self.arguments] + [f"{name}={shown(one)}" for name, one in self.options.items()]
        made = f" -> {', '.join(self.labels)}" if self.labels else ""
        return f"{self.verb}({', '.join(given)}){made}"


def shown(value: Any) -> str:
    """A value as one would write it: without what is left at its default."""
    if isinstance(value, Changes):
        left = {part.name: getattr(Changes(), part.name) for part in fields(value)}
        return _call(value, {name: getattr(value, name) for name in left}, left)
    if hasattr(value, "_field_defaults"):
        return _call(value, value._asdict(), value._field_defaults)
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {shown(one)}" for key, one in value.items()) + "}"
    return repr(value)


def _call(value: Any, held: Mapping[str, Any], left: Mapping[str, Any]) -> str:
    given = (f"{name}={shown(one)}" for name, one in held.items() if name not in left or one != left[name])
    return f"{type(value).__name__}({', '.join(given)})"


def simpler_ones(operation: Operation) -> Iterator[Operation]:
    """The operation with one thing less in it, in every way there is."""
    if operation.labels:
        return
    for n, argument in enumerate(operation.arguments):
        for simpler in _simpler_value(argument):
            yield operation._replace(arguments=(*operation.arguments[:n], simpler, *operation.arguments[n + 1 :]))


def _simpler_value(value: Any) -> Iterator[Any]:
    if isinstance(value, Changes):
        empty = Changes()
        for part in fields(value):
            held = getattr(value, part.name)
            if held != getattr(empty, part.name) and part.name != "strict":
                yield replace(value, **{part.name: getattr(empty, part.name)})
            for simpler in _simpler_value(held):
                yield replace(value, **{part.name: simpler})
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield value[:n] + value[n + 1 :]
            for simpler in _simpler_value(one):
                yield [*value[:n], simpler, *value[n + 1 :]]
    elif isinstance(value, dict):
        for key in value:
            yield {name: one for name, one in value.items() if name != key}
    elif hasattr(value, "_field_defaults"):
        for name, default in value._field_defaults.items():
            if getattr(value, name) != default:
                yield value._replace(**{name: default})
