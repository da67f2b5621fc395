"""What can be wrong with a task."""

from __future__ import annotations

from localqueue.errors import QueueError


class TaskError(QueueError):
    """A task that can not be declared or run as it is written."""


class TaskRefused(TaskError):
    """A message that no later attempt could run either: it is dead-lettered at once."""


class UnknownTask(TaskRefused):
    """The message names a task that this worker does not have."""


class SignatureChanged(TaskRefused):
    """The message was written for other parameters than the task has now."""


class ResultMisfit(TaskRefused):
    """What a task returned can not be kept as its result. It is not run again: its work is done."""
