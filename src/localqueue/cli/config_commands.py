"""`localqueue config`: show and change the config file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from localqueue.cli.command import add, family
from localqueue.cli.config import KEYS, Config, config_path, unknown
from localqueue.cli.errors import CommandFailed, Mistake
from localqueue.cli.output import Output, write

Key = Annotated[str, typer.Argument(help=f"One of {', '.join(KEYS)}.")]


def commands() -> typer.Typer:
    app = family("Show and change the config file.")
    for function in (path, show, init):
        add(app, function)
    add(app, set_, "set")
    add(app, unset)
    return app


def path() -> None:
    """Print where the config file is."""
    write(str(config_path()))


def show(out: Output) -> None:
    """Print what the config file sets, without the password of a store."""
    out.facts(Config.load().shown())


def init(
    store_path: str | None = None,
    store_url: str | None = None,
    namespace: str | None = None,
    retry_store_path: str | None = None,
    idempotency_store_path: str | None = None,
    dead_letter_ttl_seconds: float | None = None,
    retry_record_ttl_seconds: float | None = None,
    idempotency_record_ttl_seconds: float | None = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a new config file."""
    config = Config().with_values(
        {
            "store_path": store_path,
            "store_url": store_url,
            "namespace": namespace,
            "retry_store_path": retry_store_path,
            "idempotency_store_path": idempotency_store_path,
            "dead_letter_ttl_seconds": dead_letter_ttl_seconds,
            "retry_record_ttl_seconds": retry_record_ttl_seconds,
            "idempotency_record_ttl_seconds": idempotency_record_ttl_seconds,
        }
    )
    if config_path().exists() and not force:
        raise CommandFailed(f"config already exists: {config_path()}; pass --force to overwrite")
    write(f"wrote config: {config.save()}")


def set_(key: Key, value: str, out: Output) -> None:
    """Set one key."""
    _change(key, value, out)


def unset(key: Key, out: Output) -> None:
    """Remove one key."""
    _change(key, None, out)


def _change(key: str, value: Any, out: Output) -> None:
    if key not in KEYS:
        raise CommandFailed(unknown(key))
    current = Config.load()
    try:
        config = current.with_values({key: value})
    except ValueError as error:
        raise Mistake(str(error)) from None
    config.save()
    out.facts(config.shown())
