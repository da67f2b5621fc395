"""The exceptions of the port for those of the driver."""

from __future__ import annotations

from typing import Any

from localqueue.errors import (
    QueueError,
    QueueStoreError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
    UnsupportedByBroker,
)

_MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_AWAY = frozenset(
    {
        *(
            "_TRANSPORT",
            "_ALL_BROKERS_DOWN",
            "_TIMED_OUT",
            "_TIMED_OUT_QUEUE",
            "_MSG_TIMED_OUT",
            "_RESOLVE",
            "_WAIT_COORD",
        ),
        *("REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        *("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS"),
        *("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_DESTROY", "BROKER_NOT_AVAILABLE"),
        *("UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR"),
    }
)


def load() -> Any:
    """The driver, or a `RuntimeError` that says how to install it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise RuntimeError(
            'Kafka support requires the optional dependency; install with `pip install "localqueue[kafka]"`'
        ) from error
    return confluent_kafka


def is_missing(error: Any) -> bool:
    return error.name() in _MISSING


def missing(topic: str, url: str) -> QueueStoreMissingError:
    return QueueStoreMissingError(f"there is no topic {topic!r} at {url}: `ensure` makes it", path=url)


def translate(error: Any, topic: str, url: str) -> QueueError:
    """What the caller gets for an error of the driver (`KafkaError`)."""
    name, text = error.name(), error.str()
    if name in _MISSING:
        return missing(topic, url)
    if name in _AWAY:
        return QueueStoreUnavailableError(f"Kafka at {url} can not be reached or did not answer: {text}", path=url)
    if name in _TOO_LARGE:
        return UnsupportedByBroker(
            f"kafka can not take a message of so many bytes for topic {topic!r}: {text}; put the content elsewhere and "
            "send where it is"
        )
    return QueueStoreError(f"Kafka at {url} answered for topic {topic!r}: {text} ({name})", path=url)
