"""Django's tasks on a store: a backend for `TASKS`, and `manage.py localqueue_worker`.

With Django 6 these are the tasks of `django.tasks`, before it those of the package `django-tasks`.
"""

from localqueue.django.backend import LocalqueueBackend

__all__ = ["LocalqueueBackend"]
