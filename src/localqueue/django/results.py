"""Django's `TaskResult` from what the store knows of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from localqueue.django.api import LOWEST_PRIORITY, Task, TaskError, TaskResult, TaskResultStatus
from localqueue.jobs import JobStatus
from localqueue.message import QueueMessage
from localqueue.stores.kept_error import describe_error
from localqueue.tasks.errors import UnknownTask

_STATES = {
    "inflight": TaskResultStatus.RUNNING,
    "dead": TaskResultStatus.FAILED,
    "expired": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}
#: What a job failed of that ended without an error of its own.
_ENDS = {"expired": "localqueue.errors.JobExpired", "cancelled": "localqueue.errors.JobCancelled"}


def call_of(result: TaskResult) -> dict[str, Any]:
    """The value of the message for an enqueued task."""
    return {"task": result.task.module_path, "args": {"args": list(result.args), "kwargs": dict(result.kwargs)}}


def task_at(path: str) -> Task:
    """The task of Django that is at a path, or `UnknownTask`: a message names a task, and nothing else is called."""
    try:
        found = import_string(path)
    except Exception as error:  # whatever the module raises when it is imported
        raise UnknownTask(f"there is no task at {path!r}: {error}") from error
    if not isinstance(found, Task):
        raise UnknownTask(f"{path!r} is a {type(found).__name__} and no task; decorate the function with @task")
    return found


def of_message(alias: str, message: QueueMessage[Any], status: TaskResultStatus | None = None) -> TaskResult:
    """The result as a message in the store tells it, or as one that is in the hands of a worker does."""
    status = status or _STATES.get(message.state, TaskResultStatus.READY)
    errors = _errors(message.attempt_history)
    if message.state in _ENDS:
        errors.append(TaskError(exception_class_path=_ENDS[message.state], traceback=""))
    elif status == TaskResultStatus.FAILED and not errors and message.last_error is not None:
        errors.append(_error(message.last_error))
    ended = status in (TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL)
    return _built(
        alias,
        message.id,
        message.queue,
        message.value,
        message.priority,
        message.attempt_history,
        status=status,
        errors=errors,
        enqueued_at=message.created_at,
        finished_at=(message.failed_at or _last(message.attempt_history)) if ended else None,
    )


def kept(message: QueueMessage[Any], value: Any) -> dict[str, Any]:
    """What is stored as the result of a job: Django wants to know of the call, too."""
    return {
        "value": value,
        "call": message.value,
        "priority": message.priority,
        "history": [
            {name: one[name] for name in ("type", "at", "leased_by", "last_error") if name in one}
            for one in message.attempt_history
        ],
    }


def is_kept(told: Any) -> bool:
    """Whether a result is one of these: a queue may have had other messages."""
    return isinstance(told, dict) and {"value", "call", "priority", "history"} <= told.keys()


def of_outcome(alias: str, status: JobStatus) -> TaskResult:
    """The result of a job that succeeded, from what was kept of it."""
    told = status.result
    return with_value(
        _built(
            alias,
            status.id,
            status.queue,
            told["call"],
            told["priority"],
            told["history"],
            status=TaskResultStatus.SUCCESSFUL,
            errors=_errors(told["history"]),
            enqueued_at=status.created_at,
            finished_at=status.finished_at,
        ),
        told["value"],
    )


def with_value(result: TaskResult, value: Any) -> TaskResult:
    """The same result, of a task that returned `value`."""
    object.__setattr__(result, "_return_value", value)
    return result


def finished(result: TaskResult) -> TaskResult:
    """The same result, of a task that ended just now."""
    object.__setattr__(result, "finished_at", timezone.now())
    return result


def moment(at: float | None) -> datetime | None:
    """A time of the store as Django has times."""
    if at is None:
        return None
    found = datetime.fromtimestamp(at, UTC)
    return found if settings.USE_TZ else timezone.make_naive(found)


def aware(at: datetime) -> datetime:
    """A time of Django with its zone."""
    return timezone.make_aware(at) if timezone.is_naive(at) else at


def _built(
    alias: str,
    job_id: str,
    queue: str,
    call: Mapping[str, Any],
    priority: int,
    history: Sequence[Mapping[str, Any]],
    *,
    status: TaskResultStatus,
    errors: list[TaskError],
    enqueued_at: float | None,
    finished_at: float | None,
) -> TaskResult:
    tries = [one for one in history if one["type"] == "leased"]
    return TaskResult(
        task=task_at(call["task"]).using(backend=alias, queue_name=queue, priority=priority + LOWEST_PRIORITY),
        id=job_id,
        status=status,
        enqueued_at=moment(enqueued_at),
        started_at=moment(tries[0]["at"]) if tries else None,
        last_attempted_at=moment(tries[-1]["at"]) if tries else None,
        finished_at=moment(finished_at),
        args=call["args"].get("args", []),
        kwargs=call["args"].get("kwargs", {}),
        backend=alias,
        errors=errors,
        worker_ids=[str(one.get("leased_by")) for one in tries],
    )


def _errors(history: Sequence[Mapping[str, Any]]) -> list[TaskError]:
    return [_error(one["last_error"]) for one in history if one.get("last_error")]


def _error(told: Mapping[str, Any]) -> TaskError:
    return TaskError(
        exception_class_path=f"{told.get('module') or 'builtins'}.{told.get('type') or 'Exception'}",
        traceback=str(told.get("traceback") or told.get("message") or ""),
    )


def error_of(error: BaseException) -> TaskError:
    """What Django is told of an exception: what the store keeps of it."""
    return _error(describe_error(error) or {})


def _last(history: Sequence[Mapping[str, Any]]) -> float | None:
    return float(history[-1]["at"]) if history else None
