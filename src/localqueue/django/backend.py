"""`LocalqueueBackend`: what Django calls to enqueue a task and to ask what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from localqueue.django import results
from localqueue.django.api import (
    LOWEST_PRIORITY,
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from localqueue.django.options import Options
from localqueue.django.tasks import DjangoTasks, tasks_of
from localqueue.errors import PayloadError, QueueStoreMissingError
from localqueue.tasks.options import SendOptions, put_options


class LocalqueueBackend(BaseTaskBackend):
    """Stores Django's tasks as jobs of a localqueue store, for `manage.py localqueue_worker` to run.

    What a task is enqueued in decides over it: by default a job that is enqueued inside of `transaction.atomic()` is
    part of that transaction, which needs the queue to live in the same database, and is refused where it does not.
    OPTIONS["on_commit"] True enqueues after the commit instead, False at once.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._options = Options.of(alias, self.options)
        self.address = self._options.address
        self.supports_get_result = self._options.keep_results is not None

    @property
    def tasks(self) -> DjangoTasks:
        """The tasks beneath, with their store; shared by all threads of the process."""
        return tasks_of(type(self), self.alias, tuple(sorted(self.queues)), self._options)

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Store a job, or have it stored when the open transaction commits."""
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        put = partial(self._put, result)
        if self._options.on_commit is False or not self._in_transaction():
            put()
        elif self._options.on_commit:
            transaction.on_commit(put, using=self.address.database)
        else:
            self._join(put)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """What became of a job, for as long as the store knows it; raises Django's `TaskResultDoesNotExist`."""
        try:
            self.tasks.require_store()
        except QueueStoreMissingError as error:
            raise TaskResultDoesNotExist(result_id) from error
        for name in self.tasks.queues if result_id else ():
            queue = self.tasks.queue(name)
            message = queue.inspect(result_id)
            if message is not None:
                return results.of_message(self.alias, message)
            status = queue.status(result_id)
            if status is not None and results.is_kept(status.result):
                return results.of_outcome(self.alias, status)
        raise TaskResultDoesNotExist(result_id)

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:
        """Say what is wrong with the settings, without opening anything."""
        return self._options.check()

    def _in_transaction(self) -> bool:
        connection = connections[self.address.database]
        if connection.connection is None:
            return not connection.settings_dict["AUTOCOMMIT"]
        return bool(connection.in_atomic_block or not connection.autocommit)

    def _join(self, put: Callable[..., None]) -> None:
        connection = connections[self.address.database]
        connection.ensure_connection()
        try:
            put(connection=connection.connection)
        except PayloadError:
            raise
        except (ValueError, TypeError) as error:
            raise ImproperlyConfigured(
                f"TASKS[{self.alias!r}] can not store a job in the open transaction of the database "
                f'{self.address.database!r}: {error}. Leave "url" out of OPTIONS to have the jobs in that database, or '
                'say {"on_commit": True} to enqueue after the commit (lost if the process dies in between), or False '
                "to enqueue at once (it may run before the commit, and without one)"
            ) from error

    def _put(self, result: TaskResult, connection: Any = None) -> None:
        task = result.task
        options: SendOptions = {"priority": task.priority - LOWEST_PRIORITY}
        if task.run_after is not None:
            options["at"] = results.aware(task.run_after)
        if connection is not None:
            options["connection"] = connection
        put = put_options(options, self.tasks.now)
        message = self.tasks.queue(task.queue_name).put(results.call_of(result), **put)
        object.__setattr__(result, "id", message.id)
        object.__setattr__(result, "enqueued_at", results.moment(message.created_at))
        task_enqueued.send(type(self), task_result=result)
