"""`PersistentQueue`: a durable queue with the methods of `queue.Queue`, explicit messages and named policies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from localqueue.events.hooks import Hook, several
from localqueue.message import T
from localqueue.policies import (
    NO_SUBSCRIPTIONS,
    POINT_TO_POINT_ROUTING,
    AcknowledgementPolicy,
    BackpressureStrategy,
    Codec,
    ConsumptionPolicy,
    DeadLetterPolicy,
    DeduplicationPolicy,
    DeliveryPolicy,
    DispatchPolicy,
    LeasePolicy,
    LocalityPolicy,
    NotificationPolicy,
    OrderingPolicy,
    QueuePolicySet,
    QueueSemantics,
    RoutingPolicy,
    SubscriptionPolicy,
)
from localqueue.queue.consumer import Consumer
from localqueue.queue.core import shared_hooks
from localqueue.queue.desk import Desk
from localqueue.queue.operator import Operator
from localqueue.queue.producer import Producer
from localqueue.queue.results import Results
from localqueue.queue.setup import DEFAULT_LEASE_TIMEOUT, as_store, check_broker, check_keep_results, resolve
from localqueue.queue.tenancy import Tenancy
from localqueue.queue.transaction import PendingMessage, Transaction
from localqueue.stores.default import default_store_path
from localqueue.stores.port import QueueStore

if TYPE_CHECKING:
    from localqueue.brokers.port import Broker
    from localqueue.guarantees import Guarantee
    from localqueue.spec import QueueSpec
    from localqueue.worker_config import LeaseWorkerOptions, PersistentWorkerConfig


__all__ = ["PendingMessage", "PersistentQueue", "Transaction", "default_store_path"]


class PersistentQueue(Producer[T], Consumer[T], Operator[T], Results[T]):
    """A durable queue: `PersistentQueue("jobs")` keeps its messages in one SQLite file under the user's data directory.

    Safe to use from many threads and to open from many processes. Each policy argument names one queue concept; a
    combination that would promise what can not be kept is refused here. `max_attempts` dead-letters a message that was
    delivered that often without being acked. `durability` is `"process"` (survives kill -9) or `"power"` (also power
    loss). `store` is a store, or a broker (`localqueue.brokers`), which refuses here what it can not do. `hooks` are
    called with an `Event` after each thing this object does. With `keep_results`, what became of the messages that this
    object and its workers settle is kept for so many seconds, for `status` and `result`. Close it, or use it in a
    `with` block; a store that was passed in stays open.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        spec: QueueSpec | None = None,
        store: QueueStore | Broker | None = None,
        store_path: str | os.PathLike[str] | None = None,
        lease_timeout: float = DEFAULT_LEASE_TIMEOUT,
        lease_policy: LeasePolicy | None = None,
        acknowledgement_policy: AcknowledgementPolicy | None = None,
        dead_letter_policy: DeadLetterPolicy | None = None,
        deduplication_policy: DeduplicationPolicy | None = None,
        maxsize: int = 0,
        retry_defaults: Mapping[str, Any] | None = None,
        semantics: QueueSemantics | None = None,
        locality_policy: LocalityPolicy | None = None,
        consumption_policy: ConsumptionPolicy | None = None,
        delivery_policy: DeliveryPolicy | None = None,
        dispatch_policy: DispatchPolicy | None = None,
        notification_policy: NotificationPolicy | None = None,
        ordering_policy: OrderingPolicy | None = None,
        routing_policy: RoutingPolicy | None = None,
        subscription_policy: SubscriptionPolicy | None = None,
        backpressure: BackpressureStrategy | None = None,
        policy_set: QueuePolicySet | None = None,
        max_attempts: int | None = None,
        codec: Codec | None = None,
        durability: str | None = None,
        hooks: Hook | Iterable[Hook] | None = None,
        keep_results: float | None = None,
    ) -> None:
        if name is None and spec is None:
            raise ValueError("pass either name= or spec=")
        if store is not None and store_path is not None:
            raise ValueError("pass either store= or store_path=, not both")
        if store is not None and durability is not None:
            raise ValueError("pass either store= or durability=, not both; a store is opened with its own durability")
        if durability not in (None, "process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        store, broker = as_store(store)
        setup = resolve(
            name=name,
            spec=spec,
            policy_set=policy_set,
            broker=broker,
            policies={
                "semantics": semantics,
                "locality_policy": locality_policy,
                "lease_policy": lease_policy,
                "acknowledgement_policy": acknowledgement_policy,
                "dead_letter_policy": dead_letter_policy,
                "deduplication_policy": deduplication_policy,
                "delivery_policy": delivery_policy,
                "consumption_policy": consumption_policy,
                "dispatch_policy": dispatch_policy,
                "notification_policy": notification_policy,
                "ordering_policy": ordering_policy,
                "routing_policy": routing_policy,
                "subscription_policy": subscription_policy,
                "backpressure": backpressure,
            },
            lease_timeout=lease_timeout,
            maxsize=maxsize,
            retry_defaults=retry_defaults,
            max_attempts=max_attempts,
            codec=codec,
        )
        configuration = setup.configuration
        tenancy = Tenancy(configuration.name, store, store_path, durability)
        self.keep_results = check_keep_results(keep_results, configuration)
        if broker is not None:
            check_broker(broker, configuration, self.keep_results)
        super().__init__(Desk(configuration, tenancy, self.keep_results))
        self._spec = spec
        #: What the broker beneath can do; None of a queue in a store, which can do everything.
        self.broker = broker
        self.semantics = setup.semantics
        self.retry_defaults = setup.retry_defaults
        self.lease_policy = configuration.lease_policy
        self.lease_timeout = self.desk.lease_seconds
        self.acknowledgement_policy = configuration.acknowledgement_policy
        self.dead_letter_policy = configuration.dead_letter_policy
        self.deduplication_policy = configuration.deduplication_policy
        self.locality_policy = configuration.locality_policy
        self.consumption_policy = configuration.consumption_policy
        self.delivery_policy = configuration.delivery_policy
        self.dispatch_policy = configuration.dispatch_policy
        self.notification_policy = configuration.notification_policy
        self.ordering_policy = configuration.ordering_policy
        self.routing_policy = configuration.routing_policy
        self.subscription_policy = configuration.subscription_policy
        self.backpressure = configuration.backpressure
        self.maxsize = configuration.backpressure.maxsize
        self.max_attempts = configuration.max_attempts
        self.codec = configuration.codec
        for hook in several(hooks):
            self.add_hook(hook)
        if shared_hooks:
            from localqueue.queue.everywhere import join

            join(self)
        bind = getattr(configuration.dispatch_policy, "bind", None)
        if bind is not None:
            bind(self)

    @classmethod
    def from_spec(cls, spec: QueueSpec, **options: Any) -> PersistentQueue[Any]:
        """The queue a spec describes."""
        return cls(spec=spec, **options)

    def build_worker_config(self, **overrides: Unpack[LeaseWorkerOptions]) -> PersistentWorkerConfig:
        """Worker settings from the queue's spec, or plain ones."""
        if self._spec is not None:
            return self._spec.build_worker_config(**overrides)
        from localqueue.worker_config import PersistentWorkerConfig

        return PersistentWorkerConfig(**overrides)

    def guarantees(self) -> list[Guarantee]:
        """What this combination of policies promises, row by row."""
        from localqueue.guarantees import guarantees_of

        return guarantees_of(self.desk.configuration)

    def transaction(self) -> Transaction:
        """Settle and put several messages together or not at all."""
        return Transaction(self)

    def subscriber_queue(self, subscriber: str) -> PersistentQueue[T]:
        """The queue with one subscriber's copies: its own leases, retries, dedupe keys and dead letters."""
        return PersistentQueue(
            self.subscriber_queue_name(subscriber),
            store=self.store,
            lease_policy=self.lease_policy,
            acknowledgement_policy=self.acknowledgement_policy,
            dead_letter_policy=self.dead_letter_policy,
            deduplication_policy=self.deduplication_policy,
            retry_defaults=self.retry_defaults,
            locality_policy=self.locality_policy,
            consumption_policy=self.consumption_policy,
            delivery_policy=self.delivery_policy,
            dispatch_policy=self.dispatch_policy,
            notification_policy=self.notification_policy,
            ordering_policy=self.ordering_policy,
            routing_policy=POINT_TO_POINT_ROUTING,
            subscription_policy=NO_SUBSCRIPTIONS,
            backpressure=self.backpressure,
            max_attempts=self.max_attempts,
            codec=self.codec,
            hooks=self.hooks,
            keep_results=self.keep_results,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PersistentQueue({self.name!r}, store={str(self.desk.tenancy)!r})"
