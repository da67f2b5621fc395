"""Tasks: functions as messages, with typed arguments, results, retries, schedules and limits."""

from localqueue.tasks.errors import ResultMisfit, SignatureChanged, TaskError, TaskRefused, UnknownTask
from localqueue.tasks.handle import JobHandle
from localqueue.tasks.options import SendOptions
from localqueue.tasks.registry import Tasks
from localqueue.tasks.settings import TaskSettings
from localqueue.tasks.task import Task
from localqueue.tasks.worker import TaskWorker

__all__ = [
    "JobHandle",
    "ResultMisfit",
    "SendOptions",
    "SignatureChanged",
    "Task",
    "TaskError",
    "TaskRefused",
    "TaskSettings",
    "TaskWorker",
    "Tasks",
    "UnknownTask",
]
