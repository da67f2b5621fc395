"""Where the messages of a command live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.config import Config
from localqueue.cli.errors import Mistake
from localqueue.cli.registering import shared

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.stores.port import QueueStore


@shared
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the command line says about the store: the options win over the config file, that over the default."""

    store: Annotated[str | None, typer.Option(metavar="URL", help="Store, e.g. sqlite:///jobs.db or lmdb:///jobs.")] = (
        None
    )
    store_path: Annotated[str | None, typer.Option(metavar="FILE", help="SQLite file of the store.")] = None
    namespace: Annotated[str | None, typer.Option(help="Namespace inside the store.")] = None

    @property
    def is_given(self) -> bool:
        """Whether the command line names a store."""
        return self.store is not None or self.store_path is not None

    @contextmanager
    def open_store(self) -> Iterator[QueueStore]:
        """The store, closed at the end."""
        if self.store is not None and self.store_path is not None:
            raise Mistake("pass either --store or --store-path, not both")
        for option, value in (("--store", self.store), ("--store-path", self.store_path)):
            if value == "":
                raise Mistake(f"{option} is empty")
        store = self._open()
        try:
            yield store
        finally:
            store.close()

    def _open(self) -> QueueStore:
        config = Config.load()
        url, path = self.store, self.store_path
        if url is None and path is None:
            url, path = config.store_url, config.store_path
        namespace = self.namespace if self.namespace is not None else config.namespace or "default"
        if url is not None:
            from localqueue.stores.url import open_store

            return open_store(url, namespace=namespace)
        from localqueue.stores.sqlite import SQLiteQueueStore

        if path is None:
            from localqueue.queue.core import default_store_path

            path = str(default_store_path())
        return SQLiteQueueStore(path, namespace=namespace)

    @contextmanager
    def open_queue(self, name: str, **settings: Any) -> Iterator[PersistentQueue[Any]]:
        """A queue of the store. A wrong name is found before a store is made for it."""
        from localqueue.queue import PersistentQueue
        from localqueue.queue.setup import check_name

        check_name(name)
        with self.open_store() as store, PersistentQueue[Any](name, store=store, **settings) as queue:
            yield queue
