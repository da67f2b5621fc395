"""Where the jobs of a backend live: at an address of their own, or in a database of Django."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from localqueue.stores.default import Settings
from localqueue.stores.url import checked, path_of

_OF_LIBPQ = ("service", "passfile", "connect_timeout", "target_session_attrs", "gssencmode", "channel_binding")


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is None for the database of Django that `database` names. What is in a transaction of that database when a
    job is enqueued decides over the job, wherever it lives."""

    url: str | None
    namespace: str
    database: str

    def settings(self) -> Settings:
        """Which store that is. Where it shares a SQLite file with Django, it leaves Django's tables alone."""
        url = self.url or url_of(self.database)
        shares = checked(url) == "sqlite" and _is_file_of(path_of(url), self.database)
        return Settings.of(None, url, self.namespace, {"shared": True} if shares else None)

    def make(self) -> None:
        """Have the tables there, if they are in Django's database and that is no passing one in memory."""
        if self.url is None and _joins(self.database):
            self.settings().open().close()


def url_of(database: str) -> str:
    """The address of a database of Django."""
    settings = connections[database].settings_dict
    vendor = connections[database].vendor
    if not _joins(database):
        what = "a SQLite database in memory" if vendor == "sqlite" else f"a database of {vendor}"
        raise ImproperlyConfigured(
            f"DATABASES[{database!r}] is {what}, in which no queue can live; name another place for the jobs in "
            'OPTIONS, for example {"url": "sqlite:///jobs.db"}, or in tests {"url": "memory://", "on_commit": False}'
        )
    if vendor == "sqlite":
        return f"sqlite:///{quote(os.path.abspath(settings['NAME']))}"
    return _postgresql(settings)


def _postgresql(settings: Mapping[str, Any]) -> str:
    user, password = (quote(str(settings.get(name) or ""), safe="") for name in ("USER", "PASSWORD"))
    login = f"{user}{f':{password}' if password else ''}@" if user else ""
    host, port = str(settings.get("HOST") or ""), settings.get("PORT")
    parameters = {
        name: value
        for name, value in (settings.get("OPTIONS") or {}).items()
        if name.startswith("ssl") or name in _OF_LIBPQ
    }
    if host.startswith("/"):
        parameters["host"] = host
        host = ""
    place = f"{host}:{port}" if port else host
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"postgresql://{login}{place}/{quote(str(settings['NAME'] or ''), safe='')}{query}"


def _joins(database: str) -> bool:
    connection = connections[database]
    if connection.vendor == "sqlite":
        return not connection.is_in_memory_db()
    return bool(connection.vendor == "postgresql")


def _is_file_of(path: str, database: str) -> bool:
    connection = connections[database]
    if connection.vendor != "sqlite" or not _joins(database):
        return False
    return os.path.realpath(path) == os.path.realpath(str(connection.settings_dict["NAME"]))
