"""How a plain function becomes a command.

Options that several commands share are the fields of a dataclass. A function that has a parameter of such a type gets
those options, and one object made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, TypeVar

import typer

C = TypeVar("C", bound=type)

_SHARED: set[Any] = set()


def shared(options: C) -> C:
    """Class decorator: commands may take one of these, and have its fields as options."""
    _SHARED.add(options)
    return options


def family(help: str) -> typer.Typer:
    """An empty group of commands; without a command it shows its help and exits with 2."""
    app = typer.Typer(add_completion=False, help=help, pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.callback(invoke_without_command=True, help=help)
    def nothing_asked(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), err=True)
            raise typer.Exit(2)

    return app


def add(app: typer.Typer, function: Callable[..., Any], name: str | None = None, **settings: Any) -> None:
    """Register `function` as a command of `app`."""
    own: list[Parameter] = []
    groups: dict[str, tuple[Any, list[Parameter]]] = {}
    for parameter in _parameters(function):
        if parameter.annotation in _SHARED:
            groups[parameter.name] = (parameter.annotation, _parameters(parameter.annotation))
        else:
            own.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    taken = [*own, *(option for _, options in groups.values() for option in options)]

    def run(**given: Any) -> Any:
        made = {
            name: kind(**{option.name: given.pop(option.name) for option in options})
            for name, (kind, options) in groups.items()
        }
        return function(**made, **given)

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    app.command(name or function.__name__.replace("_", "-"), **settings)(run)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
