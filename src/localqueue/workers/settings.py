"""Putting a worker's settings together: the queue's retry defaults, then the config, then what is passed directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localqueue.retry_defaults import override_retry_settings, validate_retry_defaults
from localqueue.worker_config import PersistentWorkerConfig

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

DEFAULT_TRIES = 3
_STRATEGIES = frozenset({"max_tries", "stop", "wait", "retry"})


def merged(
    queue: PersistentQueue[Any], config: PersistentWorkerConfig | None, overrides: dict[str, Any]
) -> PersistentWorkerConfig:
    config = (queue.build_worker_config() if config is None else config).with_overrides(**overrides)
    retry = override_retry_settings(queue.retry_defaults, config.retry_kwargs)
    if retry.get("max_tries") is not None and retry.get("stop") is not None:
        raise ValueError("pass either max_tries= or stop=, not both")
    validate_retry_defaults(retry, source="the worker's")
    return PersistentWorkerConfig(
        dead_letter_on_failure=config.dead_letter_on_failure,
        release_delay=config.release_delay,
        min_interval=config.min_interval,
        circuit_breaker_failures=config.circuit_breaker_failures,
        circuit_breaker_cooldown=config.circuit_breaker_cooldown,
        **retry,
    )


def retry_by_release(queue: PersistentQueue[Any], config: PersistentWorkerConfig) -> dict[str, Any]:
    """The strategies of a worker that retries by giving the message back with a delay."""
    retry = dict(config.retry_kwargs)
    others = sorted(retry.keys() - _STRATEGIES)
    if others:
        raise ValueError(
            f"a Worker retries by releasing the message and takes {', '.join(sorted(_STRATEGIES))}, not "
            f"{', '.join(others)}; use persistent_worker() for what runs inside one lease"
        )
    if retry.get("max_tries") is None and retry.get("stop") is None and queue.max_attempts is None:
        retry["max_tries"] = DEFAULT_TRIES
    return retry


def attempt_limit(queue: PersistentQueue[Any], config: PersistentWorkerConfig, retry: dict[str, Any]) -> int | None:
    """After how many deliveries the store itself buries a message whose worker died each time."""
    tries = retry.get("max_tries") if config.dead_letter_on_failure else None
    limits = [limit for limit in (tries, queue.max_attempts) if limit is not None]
    return min(limits, default=None)
