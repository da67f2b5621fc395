"""Putting a worker's settings together: the queue's retry defaults, then the config, then what is passed directly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localqueue.retry.options import PersistentRetryOptions, RetryOptions, refuse_unknown
from localqueue.retry.settings import RetrySettings, override, settings_of
from localqueue.worker_config import LeaseWorkerOptions, PersistentWorkerConfig

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

DEFAULT_TRIES = 3
_KNOWN = frozenset(LeaseWorkerOptions.__annotations__) | frozenset(PersistentRetryOptions.__annotations__)


def merged(
    taker: Callable[..., Any],
    queue: PersistentQueue[Any],
    config: PersistentWorkerConfig | None,
    overrides: Mapping[str, Any],
) -> PersistentWorkerConfig:
    """The settings of a worker that `taker` makes, each of which is one that can be followed."""
    refuse_unknown(taker, overrides, _KNOWN)
    config = (queue.build_worker_config() if config is None else config).with_overrides(**overrides)
    retry = override(queue.retry_defaults, config.retry_kwargs)
    return PersistentWorkerConfig(
        dead_letter_on_failure=config.dead_letter_on_failure,
        release_delay=config.release_delay,
        min_interval=config.min_interval,
        circuit_breaker_failures=config.circuit_breaker_failures,
        circuit_breaker_cooldown=config.circuit_breaker_cooldown,
        **retry,
    )


def limited(queue: PersistentQueue[Any], config: PersistentWorkerConfig) -> PersistentWorkerConfig:
    """The settings of a worker that retries inside the lease, with a last try if they name none."""
    if config.retry_kwargs.get("max_tries") is not None or config.retry_kwargs.get("stop") is not None:
        return config
    return config.with_overrides(max_tries=DEFAULT_TRIES if queue.max_attempts is None else queue.max_attempts)


def retry_by_release(queue: PersistentQueue[Any], config: PersistentWorkerConfig) -> RetrySettings:
    """The settings of a worker that retries by giving the message back with a delay."""
    taken = RetryOptions.__annotations__.keys()
    others = sorted(config.retry_kwargs.keys() - taken)
    if others:
        raise ValueError(
            f"a Worker retries by releasing the message and takes {', '.join(sorted(taken))}, not "
            f"{', '.join(others)}; use persistent_worker() for what runs inside one lease"
        )
    settings = settings_of(config.retry_kwargs)
    for name in ("retry", "stop", "wait"):
        if inspect.iscoroutinefunction(strategy := getattr(settings, name)):
            raise TypeError(f"{name}={strategy!r} is a coroutine function, which only persistent_async_worker() awaits")
    if settings.max_tries is None and settings.stop is None and queue.max_attempts is None:
        return replace(settings, max_tries=DEFAULT_TRIES)
    return settings


def attempt_limit(queue: PersistentQueue[Any], config: PersistentWorkerConfig, retry: RetrySettings) -> int | None:
    """After how many deliveries the store itself buries a message whose worker died each time."""
    tries = retry.max_tries if config.dead_letter_on_failure else None
    limits = [limit for limit in (tries, queue.max_attempts) if limit is not None]
    return min(limits, default=None)
