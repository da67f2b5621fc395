"""`localqueue retry prune`, `localqueue idempotency prune`: removing records that nobody needs any more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from localqueue.cli.command import add, family
from localqueue.cli.config import Config
from localqueue.cli.errors import CommandFailed, Mistake
from localqueue.cli.output import Output
from localqueue.cli.place import Place
from localqueue.stores.keyvalue.store import now_of

if TYPE_CHECKING:
    from localqueue.idempotency import QueueIdempotencyStore, SQLiteIdempotencyStore
    from localqueue.retry import QueueAttemptStore, SQLiteAttemptStore

OlderThan = Annotated[float | None, typer.Option(min=0, help="Seconds; without it the config file says how old.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")]


def retry_commands() -> typer.Typer:
    app = family("Look after the records of persistent retries.")
    add(app, prune_retries, "prune")
    return app


def idempotency_commands() -> typer.Typer:
    app = family("Look after the records of effectively-once delivery.")
    add(app, prune_idempotency, "prune")
    return app


def prune_retries(
    place: Place,
    out: Output,
    older_than: OlderThan = None,
    retry_store_path: Annotated[
        str | None, typer.Option(metavar="FILE", help="SQLite file of the records; with --store they are in the store.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove records of exhausted retries, by the age of their first attempt."""
    config = Config.load()
    age = _age(older_than, config.retry_record_ttl_seconds, "retry_record_ttl_seconds")
    path = retry_store_path if retry_store_path is not None else config.retry_store_path
    with _attempts(place, retry_store_path, path, read_only=dry_run) as store:
        prune = store.count_exhausted_older_than if dry_run else store.prune_exhausted
        _report(out, dry_run, age, prune(older_than=age, now=now_of(store)))


def prune_idempotency(
    place: Place,
    out: Output,
    older_than: OlderThan = None,
    idempotency_store_path: Annotated[
        str | None, typer.Option(metavar="FILE", help="SQLite file of the records, unless they are in the store.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove records of work that succeeded, by the age of its success."""
    config = Config.load()
    age = _age(older_than, config.idempotency_record_ttl_seconds, "idempotency_record_ttl_seconds")
    path = idempotency_store_path if idempotency_store_path is not None else config.idempotency_store_path
    with _ledger(place, idempotency_store_path, path, read_only=dry_run) as store:
        prune = store.count_completed_older_than if dry_run else store.prune_completed
        _report(out, dry_run, age, prune(older_than=age, now=now_of(store)))


def _age(given: float | None, configured: float | None, key: str) -> float:
    age = given if given is not None else configured
    if age is None:
        raise CommandFailed(f"pass --older-than or configure {key}")
    return age


def _report(out: Output, dry_run: bool, age: float, count: int) -> None:
    out.facts({"dry_run": dry_run, "older_than": age, "would_delete" if dry_run else "deleted": count})


@contextmanager
def _attempts(
    place: Place, given: str | None, path: str | None, *, read_only: bool
) -> Iterator[SQLiteAttemptStore | QueueAttemptStore]:
    from localqueue.retry import QueueAttemptStore, SQLiteAttemptStore
    from localqueue.retry.default_store import default_path

    if _is_in_store(place, given, "--retry-store-path"):
        with place.open_store(read_only=read_only) as store:
            yield QueueAttemptStore(store)
        return
    with closing(SQLiteAttemptStore(_file(default_path() if path is None else path, read_only))) as attempts:
        yield attempts


@contextmanager
def _ledger(
    place: Place, given: str | None, path: str | None, *, read_only: bool
) -> Iterator[SQLiteIdempotencyStore | QueueIdempotencyStore]:
    from localqueue.idempotency import QueueIdempotencyStore, SQLiteIdempotencyStore

    if _is_in_store(place, given, "--idempotency-store-path") or path is None:
        with place.open_store(read_only=read_only) as store:
            yield QueueIdempotencyStore(store)
        return
    with closing(SQLiteIdempotencyStore(_file(path, read_only))) as ledger:
        yield ledger


def _file(path: str | os.PathLike[str], read_only: bool) -> str | os.PathLike[str]:
    """The path of a file, which must be there to be looked at. Pruning makes none either, and finds nothing."""
    if read_only and not os.path.exists(path):
        raise CommandFailed(f"there is no store at {os.fspath(path)!r}")
    return path


def _is_in_store(place: Place, given: str | None, option: str) -> bool:
    """Whether the records are asked for in the queue store, or kept there because the environment names one."""
    if not place.is_given:
        from localqueue.stores.default import environment

        backend, url, _ = environment()
        return given is None and (backend is not None or url is not None)
    if given is not None:
        raise Mistake(f"pass either a store or {option}, not both")
    return True
