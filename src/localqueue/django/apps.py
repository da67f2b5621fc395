"""The application for INSTALLED_APPS: it brings the worker's command, and makes the queue's tables with `migrate`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class LocalqueueConfig(AppConfig):
    name = "localqueue.django"
    label = "localqueue"
    verbose_name = "localqueue"

    def ready(self) -> None:
        post_migrate.connect(_make_tables, sender=self)


def _make_tables(using: str, **_: Any) -> None:
    """Tables that are there before the first job need not be made in the middle of a transaction."""
    from localqueue.django.api import task_backends
    from localqueue.django.backend import LocalqueueBackend

    for backend in task_backends.all():
        if isinstance(backend, LocalqueueBackend) and backend.address.database == using:
            backend.address.make()
