"""The parameters of a task: checked and written where it is enqueued, read where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, get_type_hints

from localqueue.errors import PayloadError
from localqueue.tasks.errors import ResultMisfit, SignatureChanged, TaskError
from localqueue.tasks.values import Misfit, plain, rebuilt

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class TaskSignature:
    """Writes a call as a mapping of parameters to plain values, and reads it back as arguments.

    Annotations are looked up at the first use, so that they may name what is defined further down in the module.
    """

    def __init__(self, name: str, function: Callable[..., Any], renamed: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._function = function
        self._signature = inspect.signature(function)
        self._renamed = dict(renamed or {})
        for old, new in self._renamed.items():
            if new not in self._signature.parameters:
                raise TaskError(f"task {name!r} has no parameter {new!r}, so {old!r} can not have become it")
        self._kinds: dict[str, Any] | None = None
        ordinary = all(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in self._signature.parameters.values())
        self._ordinary = self.parameters if ordinary else None

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self._signature.parameters)

    def write(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call as plain values by parameter; `TypeError` where the function would not take them,
        `PayloadError` that names the parameter for a value that does not fit its type."""
        kinds = self._types()
        written = {}
        for name, value in self._bind(args, kwargs).items():
            try:
                written[name] = self._written(name, value, kinds[name])
            except Misfit as misfit:
                raise PayloadError(
                    f"task {self._name!r}: {_shown(value)} does not fit parameter {name!r} "
                    f"({_type_name(kinds[name])}): {misfit}"
                ) from misfit
        return written

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self._ordinary is not None and not kwargs and len(args) == len(self._ordinary):
            return dict(zip(self._ordinary, args, strict=True))
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"task {self._name!r}: {error}; it takes {self._signature}") from None

    def read(self, written: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call that was written so, or `SignatureChanged`."""
        if not isinstance(written, dict):
            raise SignatureChanged(f"task {self._name!r}: its arguments are no mapping but {_shown(written)}")
        kinds = self._types()
        if self._ordinary is not None and tuple(written) == self._ordinary:
            return tuple([self._read(name, value, kinds[name]) for name, value in written.items()]), {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        given = {self._renamed.get(name, name): value for name, value in written.items()}
        by_keyword = False
        for name, parameter in self._signature.parameters.items():
            if name not in given:
                if parameter.default is Parameter.empty and parameter.kind not in _VARIADIC:
                    raise SignatureChanged(
                        f"task {self._name!r} wants the parameter {name!r}, which the message does not have "
                        f"({', '.join(written) or 'none'}): its signature changed since; give it a default, or "
                        "renamed={'old': 'new'}, and requeue the message"
                    )
                by_keyword = by_keyword or parameter.kind is not Parameter.VAR_KEYWORD
                continue
            value = self._read(name, given.pop(name), kinds[name])
            if parameter.kind is Parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is Parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is Parameter.KEYWORD_ONLY or by_keyword:
                kwargs[name] = value
            else:
                args.append(value)
        if given:
            raise SignatureChanged(
                f"task {self._name!r} has no parameter {', '.join(map(repr, given))}, which the message has: its "
                f"signature changed since; it takes {self._signature}"
            )
        return tuple(args), kwargs

    def write_result(self, value: Any) -> Any:
        kind = self._types()["return"]
        try:
            return plain(value, kind)
        except Misfit as misfit:
            raise ResultMisfit(
                f"task {self._name!r} returned {_shown(value)}, which does not fit its result "
                f"({_type_name(kind)}): {misfit}; annotate what it returns, or pass keep_result=False"
            ) from misfit

    def read_result(self, written: Any) -> Any:
        kind = self._types()["return"]
        try:
            return rebuilt(written, kind)
        except Misfit as misfit:
            raise SignatureChanged(
                f"task {self._name!r}: the stored result is no {_type_name(kind)} any more: {misfit}"
            ) from misfit

    def _written(self, name: str, value: Any, kind: Any) -> Any:
        if self._ordinary is not None:
            return plain(value, kind)
        match self._signature.parameters[name].kind:
            case Parameter.VAR_POSITIONAL:
                return [plain(one, kind) for one in value]
            case Parameter.VAR_KEYWORD:
                return {key: plain(one, kind) for key, one in value.items()}
        return plain(value, kind)

    def _read(self, name: str, written: Any, kind: Any) -> Any:
        try:
            if self._ordinary is not None:
                return rebuilt(written, kind)
            match self._signature.parameters[name].kind:
                case Parameter.VAR_POSITIONAL:
                    return [rebuilt(one, kind) for one in written]
                case Parameter.VAR_KEYWORD:
                    return {key: rebuilt(one, kind) for key, one in written.items()}
            return rebuilt(written, kind)
        except (Misfit, TypeError, AttributeError) as misfit:
            raise SignatureChanged(
                f"task {self._name!r}: {_shown(written)} of the message does not fit parameter {name!r} "
                f"({_type_name(kind)}): {misfit}"
            ) from misfit

    def _types(self) -> dict[str, Any]:
        if self._kinds is None:
            try:
                hints = get_type_hints(self._function, include_extras=True)
            except (NameError, AttributeError, TypeError, SyntaxError) as error:
                raise TaskError(
                    f"the annotations of task {self._name!r} can not be read: {error}; import the types where the "
                    "module can see them at run time, not under TYPE_CHECKING only"
                ) from error
            kinds = {name: hints.get(name, Any) for name in self._signature.parameters}
            kinds["return"] = hints.get("return", Any)
            self._kinds = kinds
        return self._kinds


def _type_name(kind: Any) -> str:
    if kind is Any:
        return "not annotated"
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 120 else f"{text[:117]}..."
