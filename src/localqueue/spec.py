"""One object that describes a queue and its workers, built step by step."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Unpack

from localqueue._dataclass import KW_ONLY, dataclass, replace
from localqueue.policies.commits import LOCAL_ATOMIC_COMMIT, CommitPolicy
from localqueue.policies.dead_letters import DEAD_LETTER_QUEUE, DeadLetterPolicy
from localqueue.policies.delivery import (
    AT_LEAST_ONCE_DELIVERY,
    AtMostOnceDelivery,
    DeliveryPolicy,
    EffectivelyOnceDelivery,
)
from localqueue.policies.policy_set import QueuePolicySet
from localqueue.policies.results import NO_RESULT_POLICY, ResultPolicy
from localqueue.retry.options import RetryerOptions
from localqueue.retry_defaults import validate_retry_defaults
from localqueue.worker_config import LeaseWorkerOptions, PersistentWorkerConfig, validate_pacing

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_DEFAULT_COOLDOWN = 30.0


class QoS(StrEnum):
    """The delivery guarantee a spec asks for."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    EFFECTIVELY_ONCE = "effectively-once"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Describes a queue's delivery and its workers' retries and pacing.

    Every `with_*` returns a new spec and leaves this one as it was; a value that no queue or
    worker could use is refused at once, not when the queue is built.
    """

    name: str
    delivery_policy: DeliveryPolicy | None = None
    dead_letter_policy: DeadLetterPolicy | None = None
    dead_letter_on_failure: bool | None = None
    release_delay: float = 0.0
    min_interval: float = 0.0
    circuit_breaker_failures: int = 0
    circuit_breaker_cooldown: float = 0.0
    _: KW_ONLY
    _retry: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        validate_pacing(
            release_delay=self.release_delay,
            min_interval=self.min_interval,
            circuit_breaker_failures=self.circuit_breaker_failures,
            circuit_breaker_cooldown=self.circuit_breaker_cooldown,
        )

    @property
    def retry_kwargs(self) -> dict[str, Any]:
        """The retry settings, as a dict of the caller's own."""
        return dict(self._retry)

    @property
    def policy_set(self) -> QueuePolicySet | None:
        """The queue policies this spec decides on; None when it leaves all of them open."""
        if self.delivery_policy is None and self.dead_letter_policy is None:
            return None
        return QueuePolicySet(delivery_policy=self.delivery_policy, dead_letter_policy=self.dead_letter_policy)

    def with_name(self, name: str) -> QueueSpec:
        """Describe another queue in the same way."""
        return replace(self, name=name)

    def with_qos(
        self,
        qos: QoS | str,
        *,
        idempotency_store: Any | None = None,
        result_policy: ResultPolicy = NO_RESULT_POLICY,
        commit_policy: CommitPolicy = LOCAL_ATOMIC_COMMIT,
    ) -> QueueSpec:
        """Choose the delivery guarantee; the keywords belong to effectively-once only."""
        delivery: DeliveryPolicy
        match QoS(qos):
            case QoS.AT_LEAST_ONCE:
                delivery = AT_LEAST_ONCE_DELIVERY
            case QoS.AT_MOST_ONCE:
                delivery = AtMostOnceDelivery()
            case QoS.EFFECTIVELY_ONCE:
                delivery = EffectivelyOnceDelivery(
                    idempotency_store=idempotency_store,
                    result_policy=result_policy,
                    commit_policy=commit_policy,
                )
        return replace(self, delivery_policy=delivery)

    def with_dead_letter_queue(self, policy: DeadLetterPolicy = DEAD_LETTER_QUEUE) -> QueueSpec:
        """Keep failed messages where they can be inspected and sent again."""
        return replace(self, dead_letter_policy=policy)

    def with_dead_letter_on_failure(self, enabled: bool = True) -> QueueSpec:
        """Dead-letter a message whose handler finally failed, or release it when not enabled."""
        return replace(self, dead_letter_on_failure=enabled)

    def with_retry(self, *, max_retries: int | None = None, **retry_kwargs: Unpack[RetryerOptions]) -> QueueSpec:
        """Add retry settings to those of earlier calls; `max_retries` is kept as `max_tries`."""
        if max_retries is not None:
            if "max_tries" in retry_kwargs:
                raise ValueError("pass either max_retries= or max_tries=, not both")
            retry_kwargs["max_tries"] = max_retries
        settings = validate_retry_defaults({**self.retry_kwargs, **retry_kwargs})
        return replace(self, _retry=tuple(sorted(settings.items(), key=lambda item: item[0])))

    def with_circuit_breaker(self, *, threshold: int, cooldown: float | None = None) -> QueueSpec:
        """Pause a worker after `threshold` failures in a row; a threshold of 0 never pauses."""
        if cooldown is None:
            cooldown = 0.0 if threshold == 0 else _DEFAULT_COOLDOWN
        return replace(self, circuit_breaker_failures=threshold, circuit_breaker_cooldown=cooldown)

    def with_release_delay(self, delay: float) -> QueueSpec:
        """Seconds before a released message is ready again."""
        return replace(self, release_delay=delay)

    def with_min_interval(self, interval: float) -> QueueSpec:
        """Least seconds between two message starts of one worker."""
        return replace(self, min_interval=interval)

    def build_queue(self, **options: Any) -> PersistentQueue[Any]:
        """Build the queue; `options` are those of PersistentQueue that the spec leaves open."""
        from localqueue.queue import PersistentQueue

        if options.get("policy_set") is not None and self.policy_set is not None:
            raise ValueError("pass queue policies via QueueSpec or build_queue(policy_set=), not both")
        if options.get("retry_defaults") is not None and self._retry:
            raise ValueError("pass retry settings via QueueSpec.with_retry() or build_queue(retry_defaults=), not both")
        return PersistentQueue(spec=self, **options)

    def build_worker_config(self, **overrides: Unpack[LeaseWorkerOptions]) -> PersistentWorkerConfig:
        """Build the worker settings; `overrides` win over the spec."""
        config = PersistentWorkerConfig(
            release_delay=self.release_delay,
            min_interval=self.min_interval,
            circuit_breaker_failures=self.circuit_breaker_failures,
            circuit_breaker_cooldown=self.circuit_breaker_cooldown,
            **self.retry_kwargs,
        )
        if self.dead_letter_on_failure is not None:
            config = config.with_overrides(dead_letter_on_failure=self.dead_letter_on_failure)
        return config.with_overrides(**overrides)
