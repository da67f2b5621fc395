"""The OPTIONS of a backend, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from localqueue.django.address import Address
from localqueue.limits import Limits
from localqueue.stores.address import shown
from localqueue.stores.url import checked
from localqueue.tasks.settings import TaskSettings

_OF_TASKS = frozenset(one.name for one in fields(TaskSettings)) - {"executor", "keep_result"}
_LIMITS = frozenset({"rate", "concurrency"})
_OWN = frozenset({"url", "namespace", "database", "on_commit", "keep_results", "lease_timeout", "tasks", "queues"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What OPTIONS says. `settings` are those of every task, `of_task` those of some by their path."""

    alias: str
    address: Address
    on_commit: bool | None
    keep_results: float | None
    lease_timeout: float
    settings: TaskSettings
    of_task: Mapping[str, tuple[TaskSettings, Limits | None]] = field(default_factory=dict)
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: str = ""

    @classmethod
    def of(cls, alias: str, given: Mapping[str, Any]) -> Options:
        """The options, or `ImproperlyConfigured` that names the one that is wrong."""
        where = f"TASKS[{alias!r}]['OPTIONS']"
        unknown = set(given) - _OWN - _OF_TASKS
        if unknown:
            known = ", ".join(sorted(_OWN | _OF_TASKS))
            raise ImproperlyConfigured(f"{where} has {', '.join(sorted(unknown))}, which is none of {known}")
        if given.get("on_commit") not in (None, True, False):
            raise ImproperlyConfigured(f"{where}['on_commit'] must be True, False or None, not {given['on_commit']!r}")
        common = {name: given[name] for name in _OF_TASKS if name in given}
        try:
            if given.get("url") is not None:
                checked(given["url"])
            return cls(
                alias=alias,
                address=Address(given.get("url"), given.get("namespace", "default"), given.get("database", "default")),
                on_commit=given.get("on_commit"),
                keep_results=given.get("keep_results", 3600.0),
                lease_timeout=given.get("lease_timeout", 30.0),
                settings=TaskSettings(**common),
                of_task={path: _of_task(path, common, own) for path, own in given.get("tasks", {}).items()},
                queues=given.get("queues", {}),
                given=repr(sorted(given.items(), key=lambda one: one[0])),
            )
        except (ValueError, TypeError) as error:
            raise ImproperlyConfigured(f"{where}: {error}") from error

    def check(self) -> list[checks.CheckMessage]:
        """What Django's checks are told."""
        if self.address.database not in connections:
            return [
                checks.Error(
                    f"TASKS[{self.alias!r}] names the database {self.address.database!r}, which DATABASES has not.",
                    id="localqueue.E001",
                )
            ]
        if self.on_commit is not None or self._may_join():
            return []
        return [
            checks.Warning(
                f"TASKS[{self.alias!r}] has its jobs at {shown(self.address.url or '')}, which is not in a database of "
                "Django: a task that is enqueued inside of a transaction is refused.",
                hint='Leave "url" out of OPTIONS to have the jobs in Django\'s database, or decide with "on_commit".',
                id="localqueue.W001",
            )
        ]

    def _may_join(self) -> bool:
        vendor = {"sqlite": "sqlite", "pg": "postgresql"}
        url = self.address.url
        return url is None or vendor.get(checked(url)) == connections[self.address.database].vendor


def _of_task(path: str, common: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[TaskSettings, Limits | None]:
    unknown = set(own) - _OF_TASKS - _LIMITS
    if unknown:
        raise ValueError(
            f"the task {path!r} has {', '.join(sorted(unknown))}, none of {', '.join(sorted(_OF_TASKS | _LIMITS))}"
        )
    limits = {name: own[name] for name in _LIMITS if name in own}
    settings = {name: value for name, value in own.items() if name not in _LIMITS}
    return TaskSettings(**{**common, **settings}), Limits(**limits) if limits else None
