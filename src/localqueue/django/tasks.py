"""`DjangoTasks`: Django's tasks as those of a worker, found by their path when a message names them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from django.db import close_old_connections, reset_queries

from localqueue.django import results
from localqueue.django.api import TaskContext, TaskResultStatus, normalize_json, task_finished, task_started
from localqueue.tasks import ResultMisfit, Task, Tasks, UnknownTask
from localqueue.workers.job import current_job

if TYPE_CHECKING:
    from localqueue.django.options import Options
    from localqueue.tasks import TaskWorker
    from localqueue.tasks.worker import TaskWorkerOptions
    from localqueue.workers.outcome import Settled

AnyTask = Task[..., Any, Any]

_ANY = "*"  # stands for the tasks that are not named in OPTIONS


class DjangoTasks(Tasks):
    """The tasks of one backend. They run in threads, as requests do: a coroutine function has a loop for itself."""

    def __init__(self, sender: type, alias: str, queues: Sequence[str], options: Options) -> None:
        super().__init__(
            queues=options.queues,
            keep_results=options.keep_results,
            lease_timeout=options.lease_timeout,
            around=fresh_connections,
        )
        self._sender = sender
        self._alias = alias
        self._names = list(queues)
        self._wanted = options
        self._settings = options.address.settings()
        for path in (*options.of_task, _ANY):  # a worker has to know the most tries of any task
            self._reach(path)

    @property
    def queues(self) -> list[str]:
        return list(self._names)

    @property
    def known(self) -> Mapping[str, AnyTask]:
        return _Known(self._reached)

    def worker(self, **options: Unpack[TaskWorkerOptions]) -> TaskWorker:
        """A worker that sends Django's signals."""
        options.setdefault("on_settled", self._tell)
        return super().worker(**options)

    def _reached(self, path: str) -> AnyTask:
        found = self._tasks.get(path)
        if found is None:
            results.task_at(path)
            found = self._reach(path)
        return found

    def _reach(self, path: str) -> AnyTask:
        settings, limits = self._wanted.of_task.get(path, (self._wanted.settings, None))
        task = self._tasks[path] = Task(
            self, self._call_of(path), name=path, queue=self._alias, settings=settings, limits=limits
        )
        return task

    def _call_of(self, path: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            message = current_job().message
            result = results.of_message(self._alias, message, TaskResultStatus.RUNNING)
            task_started.send(self._sender, task_result=result)
            context = (TaskContext(task_result=result),) if result.task.takes_context else ()
            returned = result.task.call(*context, *args, **kwargs)
            try:
                value = normalize_json(returned)
            except (TypeError, ValueError) as error:
                raise ResultMisfit(f"task {path!r} returned {returned!r:.200}, which is no JSON: {error}") from error
            return results.kept(message, value)

        return call

    def _tell(self, settled: Settled) -> None:
        """Send `task_finished` when a job has ended for good and its end is stored."""
        if settled.state not in ("acked", "dead-lettered"):
            return
        with fresh_connections():
            succeeded = settled.state == "acked"
            try:
                result = results.of_message(
                    self._alias,
                    settled.message,
                    TaskResultStatus.SUCCESSFUL if succeeded else TaskResultStatus.FAILED,
                )
            except UnknownTask:
                return  # nobody has a task to tell of
            if succeeded:
                results.with_value(result, (settled.result or {}).get("value"))
            elif settled.error is not None:
                result.errors.append(results.error_of(settled.error))
            task_finished.send(self._sender, task_result=results.finished(result))


class _Known(Mapping[str, AnyTask]):
    """Every task that there is, looked up by importing it; `UnknownTask` for what is none."""

    def __init__(self, reach: Callable[[str], AnyTask]) -> None:
        self._reach = reach

    def __getitem__(self, path: str) -> AnyTask:
        return self._reach(path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@contextmanager
def fresh_connections() -> Iterator[None]:
    """What Django does around a request: connections that are broken or too old are closed."""
    reset_queries()
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


_all: dict[tuple[Any, ...], DjangoTasks] = {}
_making = threading.Lock()


def tasks_of(sender: type, alias: str, queues: Sequence[str], options: Options) -> DjangoTasks:
    """The tasks of a backend in this process. Django makes a backend for each thread; they share a store."""
    key = (sender, alias, tuple(queues), options.given, _database_name(options))
    with _making:
        if key not in _all:
            _all[key] = DjangoTasks(sender, alias, queues, options)
        return _all[key]


def _database_name(options: Options) -> str:
    """Django's tests change it under way."""
    from django.db import connections

    return str(connections[options.address.database].settings_dict["NAME"])
