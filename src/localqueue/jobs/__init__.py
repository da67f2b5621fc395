"""What became of a message, while it is on its way and after it left: its status, its result and its progress."""

from localqueue.jobs.progress import LogLine, Progress
from localqueue.jobs.status import JobStatus

__all__ = ["JobStatus", "LogLine", "Progress"]
