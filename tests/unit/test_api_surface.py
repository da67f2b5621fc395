"""A program written for the documented API finds every name, parameter, default and printed shape it used."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import queue as stdlib_queue
from importlib import import_module
from typing import Any

import pytest

import localqueue
from localqueue import (
    AsyncioNotification,
    AtLeastOnceDelivery,
    AtMostOnceDelivery,
    BestEffortOrdering,
    BoundedBackpressure,
    CallbackDispatcher,
    CallbackNotification,
    DeadLetterQueue,
    DedupeKeySupport,
    EffectivelyOnceDelivery,
    ExplicitAcknowledgement,
    FifoReadyOrdering,
    FixedLeaseTimeout,
    InProcessNotification,
    LocalAtomicCommit,
    LocalQueuePlacement,
    NoDeduplication,
    NoDispatcher,
    NoNotification,
    NoResultPolicy,
    NoSubscriptions,
    PersistentQueue,
    PersistentWorkerConfig,
    PointToPointRouting,
    PriorityOrdering,
    PublishSubscribeRouting,
    PullConsumption,
    PushConsumption,
    QoS,
    QueueMessage,
    QueuePolicySet,
    QueueSemantics,
    QueueSpec,
    QueueStats,
    QueueStoreLockedError,
    RejectingBackpressure,
    RemoteQueuePlacement,
    ReturnStoredResult,
    SagaCommit,
    SQLiteQueueStore,
    StaticFanoutSubscriptions,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
    WebSocketNotification,
    policies,
)

CONSTANTS = [
    "AT_LEAST_ONCE_DELIVERY",
    "DEAD_LETTER_QUEUE",
    "DEDUPE_KEY_SUPPORT",
    "EXPLICIT_ACKNOWLEDGEMENT",
    "FIFO_READY_ORDERING",
    "FIXED_LEASE_TIMEOUT",
    "LOCAL_AT_LEAST_ONCE",
    "LOCAL_ATOMIC_COMMIT",
    "LOCAL_QUEUE_PLACEMENT",
    "NO_DEDUPLICATION",
    "NO_DISPATCHER",
    "NO_NOTIFICATION",
    "NO_RESULT_POLICY",
    "NO_SUBSCRIPTIONS",
    "POINT_TO_POINT_ROUTING",
    "PULL_CONSUMPTION",
    "RETURN_STORED_RESULT",
    "TWO_PHASE_COMMIT",
]

POLICIES = [
    "AcknowledgementPolicy",
    "AsyncioNotification",
    "AtLeastOnceDelivery",
    "AtMostOnceDelivery",
    "BackpressureStrategy",
    "BestEffortOrdering",
    "BoundedBackpressure",
    "CallbackDispatcher",
    "CallbackNotification",
    "CommitPolicy",
    "ConsumptionPolicy",
    "DeadLetterPolicy",
    "DeadLetterQueue",
    "DedupeKeySupport",
    "DeduplicationPolicy",
    "DeliveryPolicy",
    "DispatchPolicy",
    "EffectivelyOnceDelivery",
    "ExplicitAcknowledgement",
    "FifoReadyOrdering",
    "FixedLeaseTimeout",
    "InProcessNotification",
    "LeasePolicy",
    "LocalAtomicCommit",
    "LocalQueuePlacement",
    "LocalityPolicy",
    "NoDeduplication",
    "NoDispatcher",
    "NoNotification",
    "NoResultPolicy",
    "NoSubscriptions",
    "NotificationPolicy",
    "OrderingPolicy",
    "PointToPointRouting",
    "PriorityOrdering",
    "PublishSubscribeRouting",
    "PullConsumption",
    "PushConsumption",
    "RejectingBackpressure",
    "RemoteQueuePlacement",
    "ResultPolicy",
    "ReturnStoredResult",
    "RoutingPolicy",
    "SagaCommit",
    "StaticFanoutSubscriptions",
    "SubscriptionPolicy",
    "TransactionalOutboxCommit",
    "TwoPhaseCommit",
    "subscriber_queue_name",
]

QUEUES = [
    "PersistentQueue",
    "QueueMessage",
    "QueueStats",
    "QueueSemantics",
    "QueuePolicySet",
    "QueueSpec",
    "QoS",
    "PersistentWorkerConfig",
    "QueueStore",
    "SQLiteQueueStore",
    "LMDBQueueStore",
    "MemoryQueueStore",
    "QueueStoreLockedError",
    "__version__",
]

WORKERS = ["persistent_worker", "persistent_async_worker"]

RETRY = [
    "AttemptStore",
    "AttemptStoreLockedError",
    "LMDBAttemptStore",
    "MemoryAttemptStore",
    "PersistentAsyncRetrying",
    "PersistentRetryExhausted",
    "PersistentRetrying",
    "RetryRecord",
    "SQLiteAttemptStore",
    "close_default_store",
    "configure_default_store",
    "configure_default_store_factory",
    "idempotency_key_from_id",
    "key_from_argument",
    "key_from_attr",
    "persistent_async_retry",
    "persistent_retry",
]

IDEMPOTENCY = [
    "IdempotencyRecord",
    "IdempotencyStore",
    "IdempotencyStoreLockedError",
    "LMDBIdempotencyStore",
    "MemoryIdempotencyStore",
    "SQLiteIdempotencyStore",
]

RESULTS = [
    "LMDBResultStore",
    "MemoryResultStore",
    "ResultStore",
    "ResultStoreLockedError",
    "SQLiteResultStore",
]

NOTIFICATIONS = ["WebSocketNotification"]

FIRST_API = [*CONSTANTS, *POLICIES, *QUEUES, *WORKERS, *RETRY, *IDEMPOTENCY, *RESULTS, *NOTIFICATIONS]

#: Named by the roadmap of the first implementation.
ROADMAP = ["AsyncNotification", "ThreadedDispatcher"]

EVERY_DAY = [
    "AsyncQueue",
    "AsyncWorker",
    "Job",
    "LeaseLost",
    "PayloadError",
    "QueueError",
    "QueueFull",
    "Tasks",
    "Worker",
    "configure",
    "current_job",
    "open_store",
]

#: What came later and is not of every day has one home.
AT_HOME = {
    "localqueue.queue_copy": ["CopyReport", "copy_queue", "forget_copies"],
    "localqueue.dispatch": ["ThreadedDispatcher", "WorkerPoolDispatcher"],
    "localqueue.errors": [
        "JobCancelled",
        "JobExpired",
        "JobFailed",
        "QueueStoreClosedError",
        "QueueStoreError",
        "ResultMissing",
        "ResultTimeout",
        "UnknownMessage",
    ],
    "localqueue.events": ["AsyncHook", "Event", "JournalEvent", "LoggingHook"],
    "localqueue.idempotency": ["QueueIdempotencyStore", "RemoteIdempotencyStore", "open_idempotency_store"],
    "localqueue.jobs": ["JobStatus", "LogLine", "Progress"],
    "localqueue.message": ["RunStats", "UndecodablePayload"],
    "localqueue.metrics": ["OpenTelemetryMetrics", "PrometheusMetrics"],
    "localqueue.notifications": ["SSEListener", "SSENotification", "WebhookNotification", "WebhookReceiver"],
    "localqueue.policies": [
        "BytesCodec",
        "Codec",
        "DropNewest",
        "DropOldest",
        "JsonCodec",
        "MsgpackCodec",
        "OverflowToQueue",
        "Participant",
        "PerKeyFifoOrdering",
        "PickleCodec",
        "StoredSubscriptions",
        "Throttling",
        "TRANSACTIONAL_OUTBOX_COMMIT",
    ],
    "localqueue.queue": ["PendingMessage", "Transaction"],
    "localqueue.results": ["QueueResultStore", "RemoteResultStore", "open_result_store"],
    "localqueue.retry": ["QueueAttemptStore", "RemoteAttemptStore", "open_attempt_store"],
    "localqueue.schedules": ["CronSchedule", "PeriodicSchedule", "Schedule", "ScheduleState", "Scheduler"],
    "localqueue.stores.mongodb": ["MongoDBQueueStore"],
    "localqueue.stores.postgres": ["PostgresQueueStore"],
    "localqueue.stores.redis": ["RedisQueueStore"],
    "localqueue.tasks": ["JobHandle", "SignatureChanged", "Task", "TaskError", "TaskWorker", "UnknownTask"],
    "localqueue.tracing": ["OpenTelemetryTracing", "instrument", "uninstrument"],
    "localqueue.workers": ["OutboxRelay", "Settled", "WorkerCounts"],
}


@pytest.mark.parametrize("name", [*FIRST_API, *ROADMAP, *EVERY_DAY])
def test_a_documented_name_is_exported(name: str) -> None:
    assert name in localqueue.__all__
    assert getattr(localqueue, name) is not None


def test_the_root_exports_nothing_else() -> None:
    assert set(localqueue.__all__) == {*FIRST_API, *ROADMAP, *EVERY_DAY}


@pytest.mark.parametrize(("home", "name"), [(home, name) for home, names in AT_HOME.items() for name in names])
def test_a_name_that_came_later_is_in_its_package(home: str, name: str) -> None:
    assert getattr(import_module(home), name) is not None


def test_every_policy_of_the_root_is_among_the_policies() -> None:
    assert {*CONSTANTS, *POLICIES} <= set(policies.__all__)


def test_the_outbox_constant_is_where_it_was() -> None:
    assert TransactionalOutboxCommit() == policies.TRANSACTIONAL_OUTBOX_COMMIT


def test_every_exported_name_is_listed_once() -> None:
    assert len(set(localqueue.__all__)) == len(localqueue.__all__)


POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty


def documented(call: Any, positional: dict[str, Any], keyword: dict[str, Any] | None = None) -> None:
    """`call` takes these parameters first, in this order, and whatever it takes beyond them is optional."""
    keyword = keyword or {}
    found = {name: p for name, p in inspect.signature(call).parameters.items() if name != "self"}
    assert [n for n, p in found.items() if p.kind is POSITIONAL][: len(positional)] == list(positional)
    assert set(keyword) <= {n for n, p in found.items() if p.kind in (KEYWORD, POSITIONAL)}
    for name, default in {**positional, **keyword}.items():
        assert found[name].default == default, name
    for name, parameter in found.items():
        if name not in positional and name not in keyword:
            variadic = parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
            assert variadic or parameter.default is not REQUIRED, f"{name} is new and required"


QUEUE_OPTIONS: dict[str, Any] = {
    "spec": None,
    "store": None,
    "store_path": None,
    "lease_timeout": 30.0,
    "lease_policy": None,
    "acknowledgement_policy": None,
    "dead_letter_policy": None,
    "deduplication_policy": None,
    "maxsize": 0,
    "retry_defaults": None,
    "semantics": None,
    "locality_policy": None,
    "consumption_policy": None,
    "delivery_policy": None,
    "dispatch_policy": None,
    "notification_policy": None,
    "ordering_policy": None,
    "routing_policy": None,
    "subscription_policy": None,
    "backpressure": None,
    "policy_set": None,
}


def test_the_queue_constructor_takes_the_documented_options() -> None:
    documented(PersistentQueue, {"name": None}, QUEUE_OPTIONS)


def test_only_the_name_of_a_queue_may_be_positional() -> None:
    with pytest.raises(TypeError):
        PersistentQueue("jobs", None)  # type: ignore[misc]


def test_a_queue_can_be_given_a_value_type() -> None:
    assert PersistentQueue[dict[str, int]] is not None


@pytest.mark.parametrize(
    ("method", "positional", "keyword"),
    [
        (
            "put",
            {"item": REQUIRED, "block": True, "timeout": None},
            {"delay": 0.0, "dedupe_key": None, "priority": 0},
        ),
        ("put_nowait", {"item": REQUIRED}, {}),
        ("get", {"block": True, "timeout": None}, {"leased_by": None}),
        ("get_nowait", {}, {}),
        ("get_message", {"block": True, "timeout": None}, {"leased_by": None}),
        ("inspect", {"message_id": REQUIRED}, {}),
        ("ack", {"message": REQUIRED}, {}),
        ("release", {"message": REQUIRED}, {"delay": 0.0, "error": None}),
        ("dead_letter", {"message": REQUIRED}, {"error": None}),
        ("requeue_dead", {"message": REQUIRED}, {"delay": 0.0}),
        ("task_done", {}, {}),
        ("join", {}, {}),
        ("qsize", {}, {}),
        ("empty", {}, {}),
        ("full", {}, {}),
        ("stats", {}, {}),
        ("purge", {}, {}),
        ("dead_letters", {}, {"limit": None}),
        ("prune_dead_letters", {}, {"older_than": REQUIRED}),
        ("count_dead_letters_older_than", {}, {"older_than": REQUIRED}),
        ("record_worker_heartbeat", {"worker_id": REQUIRED}, {}),
        ("subscriber_queue", {"subscriber": REQUIRED}, {}),
        ("subscriber_queue_name", {"subscriber": REQUIRED}, {}),
        ("close", {}, {}),
        # the batch face and lease tokens of this issue
        ("put_many", {"items": REQUIRED, "block": True, "timeout": None}, {}),
        ("get_messages", {"n": REQUIRED, "block": True, "timeout": None}, {"leased_by": None}),
        ("ack_many", {"messages": REQUIRED}, {}),
        ("renew", {"message": REQUIRED}, {}),
        ("pause", {}, {}),
        ("resume", {}, {}),
    ],
)
def test_a_queue_method_takes_the_documented_parameters(
    method: str, positional: dict[str, Any], keyword: dict[str, Any]
) -> None:
    documented(getattr(PersistentQueue, method), positional, keyword)


@pytest.mark.parametrize("option", ["delay", "dedupe_key", "priority"])
def test_the_options_of_put_are_keyword_only(option: str) -> None:
    assert inspect.signature(PersistentQueue.put).parameters[option].kind is KEYWORD


def test_stores_take_the_documented_parameters() -> None:
    documented(SQLiteQueueStore, {"path": REQUIRED, "timeout": 15.0})
    documented(localqueue.MemoryQueueStore, {})
    documented(localqueue.LMDBQueueStore, {"path": REQUIRED}, {"map_size": 10**8})
    for store in (SQLiteQueueStore, localqueue.MemoryQueueStore, localqueue.LMDBQueueStore):
        assert callable(store.close)


def test_the_notification_by_websocket_takes_the_documented_parameters() -> None:
    default = inspect.signature(WebSocketNotification).parameters["serializer"].default
    documented(WebSocketNotification, {"connections": REQUIRED, "serializer": default, "loop": None})
    message: QueueMessage[str] = QueueMessage("i", "v", "q")
    assert list(default(message)) == field_names(QueueMessage)[:14]


def test_a_locked_store_is_a_runtime_error_that_names_its_path() -> None:
    error = QueueStoreLockedError("locked", path="/var/q")
    assert isinstance(error, RuntimeError)
    assert error.path == "/var/q"


def test_a_full_queue_raises_what_the_standard_library_raises() -> None:
    assert issubclass(localqueue.QueueFull, stdlib_queue.Full)
    assert issubclass(localqueue.PayloadError, ValueError)


def field_names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]


def test_a_message_has_its_fields_in_the_documented_order() -> None:
    names = [
        "id",
        "value",
        "queue",
        "state",
        "attempts",
        "created_at",
        "available_at",
        "leased_until",
        "leased_by",
        "last_error",
        "failed_at",
        "attempt_history",
        "dedupe_key",
        "priority",
    ]
    assert field_names(QueueMessage)[: len(names)] == names
    message: QueueMessage[str] = QueueMessage("i", "v", "q")
    defaults = ("ready", 0, 0.0, 0.0, None, None, None, None, [], None, 0)
    assert tuple(getattr(message, name) for name in names[3:]) == defaults
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.state = "dead"  # type: ignore[misc]


def test_stats_print_their_counts_in_the_documented_order() -> None:
    names = [
        "ready",
        "delayed",
        "inflight",
        "dead",
        "total",
        "by_worker_id",
        "leases_by_worker_id",
        "last_seen_by_worker_id",
        "oldest_ready_age_seconds",
        "oldest_inflight_age_seconds",
        "average_inflight_age_seconds",
    ]
    assert field_names(QueueStats)[: len(names)] == names
    printed = QueueStats().as_dict()
    assert list(printed)[: len(names)] == names
    assert [printed[name] for name in names] == [0, 0, 0, 0, 0, {}, {}, {}, None, None, None]


def test_semantics_have_the_documented_fields_and_defaults() -> None:
    assert QueueSemantics().as_dict() == {
        "locality": "local",
        "delivery": "at-least-once",
        "routing": "point-to-point",
        "consumption": "pull",
        "ordering": "fifo-ready",
        "leases": True,
        "acknowledgements": True,
        "dead_letters": True,
        "deduplication": True,
        "subscriptions": False,
        "notifications": False,
    }
    assert QueueSemantics() == localqueue.LOCAL_AT_LEAST_ONCE


SET_FIELDS = [
    "semantics",
    "locality_policy",
    "lease_policy",
    "acknowledgement_policy",
    "dead_letter_policy",
    "deduplication_policy",
    "delivery_policy",
    "consumption_policy",
    "dispatch_policy",
    "notification_policy",
    "ordering_policy",
    "routing_policy",
    "subscription_policy",
    "backpressure",
]


def test_a_policy_set_prints_fourteen_keys() -> None:
    assert sorted(field_names(QueuePolicySet)) == sorted(SET_FIELDS)
    assert sorted(QueuePolicySet().as_dict()) == sorted(SET_FIELDS)
    assert set(QueuePolicySet().as_dict().values()) == {None}


TWELVE = [name for name in SET_FIELDS if name not in ("semantics", "delivery_policy")]


@pytest.mark.parametrize("factory", ["at_least_once", "at_most_once", "effectively_once"])
def test_a_factory_takes_the_twelve_other_policies_by_keyword(factory: str) -> None:
    build = getattr(QueuePolicySet, factory)
    marks = {name: object() for name in TWELVE}
    built = build(**marks)
    assert {name: getattr(built, name) for name in TWELVE} == marks
    assert built.delivery_policy.guarantee == factory.replace("_", "-")
    with pytest.raises(TypeError):
        build(LocalQueuePlacement())


def test_the_effectively_once_factory_takes_its_three_parts() -> None:
    ledger, result, commit = object(), ReturnStoredResult(), SagaCommit()
    built = QueuePolicySet.effectively_once(idempotency_store=ledger, result_policy=result, commit_policy=commit)
    assert built.delivery_policy == EffectivelyOnceDelivery(
        idempotency_store=ledger, result_policy=result, commit_policy=commit
    )


def test_qos_is_a_string_enum() -> None:
    assert issubclass(QoS, enum.StrEnum)
    assert {qos.name: qos.value for qos in QoS} == {
        "AT_LEAST_ONCE": "at-least-once",
        "AT_MOST_ONCE": "at-most-once",
        "EFFECTIVELY_ONCE": "effectively-once",
    }


def test_a_spec_has_its_fields_in_the_documented_order() -> None:
    documented(
        QueueSpec,
        {
            "name": REQUIRED,
            "delivery_policy": None,
            "dead_letter_policy": None,
            "dead_letter_on_failure": None,
            "release_delay": 0.0,
            "min_interval": 0.0,
            "circuit_breaker_failures": 0,
            "circuit_breaker_cooldown": 0.0,
        },
    )
    assert QueueSpec("jobs").retry_kwargs == {}


@pytest.mark.parametrize(
    ("method", "positional", "keyword"),
    [
        ("with_name", {"name": REQUIRED}, {}),
        (
            "with_qos",
            {"qos": REQUIRED},
            {
                "idempotency_store": None,
                "result_policy": localqueue.NO_RESULT_POLICY,
                "commit_policy": localqueue.LOCAL_ATOMIC_COMMIT,
            },
        ),
        ("with_dead_letter_queue", {"policy": localqueue.DEAD_LETTER_QUEUE}, {}),
        ("with_dead_letter_on_failure", {"enabled": True}, {}),
        ("with_retry", {}, {"max_retries": None}),
        ("with_circuit_breaker", {}, {"threshold": REQUIRED, "cooldown": None}),
        ("with_release_delay", {"delay": REQUIRED}, {}),
        ("with_min_interval", {"interval": REQUIRED}, {}),
    ],
)
def test_a_spec_method_takes_the_documented_parameters(
    method: str, positional: dict[str, Any], keyword: dict[str, Any]
) -> None:
    documented(getattr(QueueSpec, method), positional, keyword)


def test_worker_settings_have_the_documented_defaults() -> None:
    config = PersistentWorkerConfig(max_tries=3)
    assert (config.dead_letter_on_failure, config.dead_letter_on_exhaustion) == (True, True)
    assert (config.release_delay, config.min_interval) == (0.0, 0.0)
    assert (config.circuit_breaker_failures, config.circuit_breaker_cooldown) == (0, 0.0)
    assert config.retry_kwargs == {"max_tries": 3}
    with pytest.raises(TypeError):
        PersistentWorkerConfig(True)  # type: ignore[misc]


def delivery(guarantee: str, timing: str, leases: bool) -> dict[str, Any]:
    return {
        "guarantee": guarantee,
        "ack_timing": timing,
        "uses_leases": leases,
        "redelivers_expired_leases": leases,
    }


def ordering(guarantee: str, delayed: bool, stable: bool, priority: bool) -> dict[str, Any]:
    return {
        "guarantee": guarantee,
        "ready_before_delayed": delayed,
        "stable_for_same_timestamp": stable,
        "priority_before_sequence": priority,
    }


def notification(kind: str, listeners: int, scope: str = "in-process") -> dict[str, Any]:
    return {
        "type": kind,
        "scope": scope,
        "notifies": True,
        "notifies_on_put": True,
        "listener_count": listeners,
    }


LOCAL_COMMIT = {"mode": "local-atomic", "local_commit": True, "coordinates_effects": False}
NO_RESULT = {"type": "none", "stores_result": False, "returns_cached_result": False}


def ignore(message: Any) -> None:
    """A listener and handler for tests that only look at what a policy prints."""


class Connection:
    """What a WebSocket must have at least."""

    async def send(self, payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("policy", "printed"),
    [
        (LocalQueuePlacement(), {"locality": "local", "co_located_state": True, "crosses_network_boundary": False}),
        (RemoteQueuePlacement(), {"locality": "remote", "co_located_state": False, "crosses_network_boundary": True}),
        (
            FixedLeaseTimeout(30.0),
            {"type": "fixed-timeout", "timeout": 30.0, "uses_leases": True, "expires_inflight": True},
        ),
        (ExplicitAcknowledgement(), {"acknowledgements": True, "explicit_ack": True, "removes_on_ack": True}),
        (DeadLetterQueue(), {"dead_letters": True, "stores_failures": True, "supports_requeue": True}),
        (DedupeKeySupport(), {"deduplication": True, "accepts_dedupe_key": True}),
        (NoDeduplication(), {"deduplication": False, "accepts_dedupe_key": False}),
        (AtLeastOnceDelivery(), delivery("at-least-once", "after-success", True)),
        (AtMostOnceDelivery(), delivery("at-most-once", "before-delivery", False)),
        (
            EffectivelyOnceDelivery(),
            {
                **delivery("effectively-once", "after-success", True),
                "requires_dedupe_key": True,
                "idempotency_store": None,
                "result_policy": NO_RESULT,
                "commit_policy": LOCAL_COMMIT,
            },
        ),
        (LocalAtomicCommit(), LOCAL_COMMIT),
        (
            TransactionalOutboxCommit(outbox_store=object()),
            {
                "mode": "transactional-outbox",
                "local_commit": True,
                "coordinates_effects": True,
                "outbox_store": "object",
            },
        ),
        (
            TwoPhaseCommit(),
            {
                "mode": "two-phase",
                "local_commit": False,
                "coordinates_effects": True,
                "prepare_store": None,
                "commit_store": None,
            },
        ),
        (
            SagaCommit(),
            {"mode": "saga", "local_commit": False, "coordinates_effects": True, "saga_store": None},
        ),
        (NoResultPolicy(), NO_RESULT),
        (
            ReturnStoredResult(),
            {"type": "return-stored", "stores_result": True, "returns_cached_result": True, "result_store": None},
        ),
        (
            PullConsumption(),
            {"pattern": "pull", "consumer_requests_messages": True, "producer_invokes_handler": False},
        ),
        (
            PushConsumption(),
            {"pattern": "push", "consumer_requests_messages": False, "producer_invokes_handler": True},
        ),
        (NoDispatcher(), {"dispatches": False, "dispatches_on_put": False, "handler_count": 0}),
        (
            CallbackDispatcher((ignore,)),
            {"type": "callback", "dispatches": True, "dispatches_on_put": True, "handler_count": 1},
        ),
        (NoNotification(), {"notifies": False, "notifies_on_put": False, "listener_count": 0}),
        (CallbackNotification(ignore), notification("callback", 1)),
        (InProcessNotification(), notification("thread-event", 1)),
        (AsyncioNotification(), notification("asyncio-event", 1)),
        (WebSocketNotification((Connection(), Connection())), notification("websocket", 2, "network")),
        (
            PointToPointRouting(),
            {"pattern": "point-to-point", "single_consumer_per_message": True, "fanout": False},
        ),
        (
            PublishSubscribeRouting(),
            {"pattern": "publish-subscribe", "single_consumer_per_message": False, "fanout": True},
        ),
        (NoSubscriptions(), {"subscriptions": False, "fanout": False, "subscriber_count": 0}),
        (
            StaticFanoutSubscriptions(("a", "b")),
            {"subscriptions": True, "fanout": True, "subscriber_count": 2, "subscribers": ["a", "b"]},
        ),
        (FifoReadyOrdering(), ordering("fifo-ready", True, True, False)),
        (PriorityOrdering(), ordering("priority", True, True, True)),
        (BestEffortOrdering(), ordering("best-effort", False, False, False)),
        (BoundedBackpressure(5), {"type": "bounded", "maxsize": 5, "overflow": "block"}),
        (RejectingBackpressure(5), {"type": "rejecting", "maxsize": 5, "overflow": "reject"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_a_policy_prints_the_documented_shape(policy: Any, printed: dict[str, Any]) -> None:
    shape = policy.as_dict()
    assert list(shape) == list(printed)
    assert shape == printed
    assert dataclasses.is_dataclass(policy)
    assert not hasattr(policy, "__dict__")
