"""What a task is declared with, checked when it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from localqueue.policies._limits import require_integer, require_seconds
from localqueue.retry.options import Predicate
from localqueue.retry.settings import RetrySettings, retry_settings

Executor = Literal["threads", "processes", "asyncio"]

DEFAULT_RETRIES = 2
DEFAULT_RETRY_DELAY = 2.0
DEFAULT_BACKOFF = 2.0
DEFAULT_MAX_DELAY = 600.0

RetryOn: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Predicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """How a task runs. `retries` counts the tries after the first; between them are `retry_delay` seconds, times
    `backoff` for each further one, at most `max_delay`, and up to `jitter` seconds more."""

    retries: int = DEFAULT_RETRIES
    retry_delay: float = DEFAULT_RETRY_DELAY
    backoff: float = DEFAULT_BACKOFF
    max_delay: float = DEFAULT_MAX_DELAY
    jitter: float = 0.0
    retry_on: RetryOn | None = None
    timeout: float | None = None
    executor: Executor | None = None
    keep_result: bool = True

    def __post_init__(self) -> None:
        if require_integer("retries", self.retries) < 0:
            raise ValueError(f"retries cannot be negative, this is {self.retries}; 0 means one try")
        if self.timeout is not None and not require_seconds("timeout", self.timeout) > 0:
            raise ValueError(f"timeout must be greater than zero, not {self.timeout!r}")
        self.retry()
        if self.executor not in (None, "threads", "processes", "asyncio"):
            raise ValueError(f"executor must be 'threads', 'processes' or 'asyncio', not {self.executor!r}")

    @property
    def tries(self) -> int:
        return self.retries + 1

    def retry(self) -> RetrySettings:
        """The same as the retry settings of a worker, or an error that names what is wrong."""
        return retry_settings(
            max_tries=self.tries,
            wait=self.retry_delay,
            backoff=self.backoff,
            max_delay=self.max_delay,
            jitter=self.jitter,
            retry=self.retry_on,
        )
