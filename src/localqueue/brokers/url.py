"""Opening a broker by its address."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from localqueue.stores.address import shown
from localqueue.stores.url import BACKENDS, open_store

if TYPE_CHECKING:
    # Whoever only asks whether an address is that of a broker loads nothing of it.
    from localqueue.brokers.port import Broker

#: The brokers that are no stores: where the class is, and the addresses it takes.
BROKERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "rabbitmq": ("localqueue.brokers.rabbitmq", "RabbitMQBroker", ("amqp", "amqps")),
    "sqs": ("localqueue.brokers.sqs", "SQSBroker", ("sqs",)),
    "kafka": ("localqueue.brokers.kafka", "KafkaBroker", ("kafka",)),
    "redis-streams": ("localqueue.brokers.redis_streams", "RedisStreamsBroker", ("redis+stream", "rediss+stream")),
    "pgmq": ("localqueue.brokers.pgmq", "PGMQBroker", ("pgmq",)),
}
_BROKER_OF = {scheme: name for name, (_, _, schemes) in BROKERS.items() for scheme in schemes}
_STORE_SCHEMES = {scheme for _, _, schemes in BACKENDS.values() for scheme in schemes}
_FORMS = (
    "amqp://..., sqs://..., kafka://..., redis+stream://..., pgmq://..., or that of a store such as sqlite:///jobs.db"
)


def open_broker(url: str, **options: Any) -> Broker:
    """The broker at `url`; nothing is made there before `ensure`, and no connection before it is needed.

    `amqp://user:password@host:5672/vhost` is RabbitMQ (also `amqps://`), `sqs://region` Amazon SQS, `kafka://host:9092`
    Kafka, `redis+stream://host:6379/0` Redis Streams, `pgmq://user@host:5432/database` PGMQ. The address of a store
    opens that store, behind the same port. What can be said behind a `?` is on the page of providers; `options` go to
    the broker, or to the store.
    """
    if is_broker(url):
        module, name, _ = BROKERS[_BROKER_OF[_scheme(url)]]
        opened: Broker = getattr(import_module(module), name)(url, **options)
        return opened
    if isinstance(url, str) and _scheme(url) in _STORE_SCHEMES:
        from localqueue.brokers.store import StoreBroker

        return StoreBroker(open_store(url, **options), owned=True)
    if not isinstance(url, str):
        raise TypeError(f"the address of a broker is a text such as amqp://localhost, not a {type(url).__name__}")
    raise ValueError(f"can not open {shown(url)!r}: the address of a broker is {_FORMS}")


def is_broker(url: object) -> bool:
    """Whether this is the address of a broker that is no store."""
    return isinstance(url, str) and _scheme(url) in _BROKER_OF and "://" in url


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()
