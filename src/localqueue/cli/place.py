"""Where the messages of a command live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import shared
from localqueue.cli.config import Config
from localqueue.cli.errors import Mistake, say

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.stores.port import QueueStore


@shared
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the command line says about the store: the options win over the environment, that over the config file."""

    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Store, e.g. sqlite:///jobs.db or redis://localhost.")
    ] = field(default=None, repr=False)
    store_path: Annotated[str | None, typer.Option(metavar="FILE", help="SQLite file of the store.")] = None
    namespace: Annotated[str | None, typer.Option(help="Namespace inside the store.")] = None

    @property
    def is_given(self) -> bool:
        """Whether the command line names a store."""
        return self.store is not None or self.store_path is not None

    @contextmanager
    def open_store(self, *, read_only: bool = False) -> Iterator[QueueStore]:
        """The store, closed at the end. With `read_only` it must be there, and nothing in it can be changed."""
        if self.store is not None and self.store_path is not None:
            raise Mistake("pass either --store or --store-path, not both")
        for option, value in (("--store", self.store), ("--store-path", self.store_path)):
            if value == "":
                raise Mistake(f"{option} is empty")
        store = self._open(read_only)
        try:
            yield store
        finally:
            store.close()

    def _open(self, read_only: bool) -> QueueStore:
        from localqueue.stores.default import Settings, environment

        config = Config.load()
        backend, there, named = environment()
        url, path = self.store, self.store_path
        namespace = next((one for one in (self.namespace, named, config.namespace) if one is not None), None)
        if url is None and path is None:
            if backend is not None or there is not None:
                return Settings.of(backend, there, namespace).open(read_only=read_only)
            url, path = config.store_url, config.store_path
        if path is None:
            return Settings.of(None, url, namespace).open(read_only=read_only)
        from localqueue.stores.sqlite import SQLiteQueueStore

        return SQLiteQueueStore(path, namespace="default" if namespace is None else namespace, read_only=read_only)

    @contextmanager
    def open_queue(self, name: str, *, read_only: bool = False, **settings: Any) -> Iterator[PersistentQueue[Any]]:
        """A queue of the store. A wrong name is found before a store is made for it."""
        from localqueue.queue import PersistentQueue
        from localqueue.queue.setup import check_name

        check_name(name)
        with (
            self.open_store(read_only=read_only) as store,
            PersistentQueue[Any](name, store=store, **settings) as queue,
        ):
            yield queue

    @contextmanager
    def look_at_queue(self, name: str) -> Iterator[PersistentQueue[Any]]:
        """A queue of a store that is there, to be read. A queue that is not there reads as empty, and that is said."""
        with self.open_queue(name, read_only=True) as queue:
            if name not in queue.store.queues():
                say(f"there is no queue {name!r} in the store at {queue.store.url!r}")
            yield queue
