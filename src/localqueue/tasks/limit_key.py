"""The key of a task's limits: a function of the task's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

from localqueue.limits.limits import key_text
from localqueue.tasks.errors import TaskError

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class LimitKey:
    """Calls a function with all arguments of a task, defaults too: by name, or else in their order.

    One that can be called in neither way is refused where the task is declared.
    """

    def __init__(self, task: str, function: Callable[..., str | int], signature: Signature) -> None:
        self._task = task
        self._function = function
        self._signature = signature
        self._by_name = self._is_called_by_name()

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The key of a call, as it is stored."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            if not self._by_name:
                return key_text(self._function(*bound.args, **bound.kwargs))
            named = dict(bound.arguments)
            for name, parameter in self._signature.parameters.items():
                if parameter.kind is Parameter.VAR_KEYWORD:
                    named.update(named.pop(name))
            return key_text(self._function(**named))
        except Exception as error:
            error.add_note(f"This was the key= of task {self._task!r}.")
            raise

    def _is_called_by_name(self) -> bool:
        try:
            taken = inspect.signature(self._function)
        except (TypeError, ValueError):  # of a function that is not written in Python
            return False
        parameters = self._signature.parameters.values()
        names = [one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD]
        if _fits(taken, by_name=names):
            return True
        ordered = [one.name for one in parameters if one.kind not in (*_VARIADIC, Parameter.KEYWORD_ONLY)]
        by_name = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
        if _fits(taken, ordered, by_name):
            return False
        raise TaskError(
            f"the key of task {self._task!r} is called with all its arguments, {', '.join(names) or 'which are none'}, "
            f"and this one takes {taken}; write lambda {', '.join([*names[:1], '**_'])}: ..."
        )


def _fits(taken: Signature, ordered: list[str] | None = None, by_name: list[str] | None = None) -> bool:
    try:
        taken.bind(*(ordered or ()), **dict.fromkeys(by_name or ()))
    except TypeError:
        return False
    return True
