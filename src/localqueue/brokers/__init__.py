"""Brokers behind one narrow port: RabbitMQ, SQS, Kafka, Redis Streams, PGMQ, and every store of this package.

`open_broker(url)` opens one. It delivers messages as they are (`send`, `receive`, `ack`), feeds a `HybridConsumer`, and
is the store of a `PersistentQueue`: `PersistentQueue("jobs", store=open_broker("amqp://localhost"))`.
"""

from localqueue._exports import lazy

_NAMES = {
    "localqueue.brokers.capabilities": ("BrokerCapabilities", "CAPABILITIES", "capabilities_of"),
    "localqueue.brokers.hybrid": ("AsyncHybridConsumer", "HybridConsumer"),
    "localqueue.brokers.port": (
        "Available",
        "Broker",
        "BrokerStats",
        "Delivery",
        "Health",
        "Message",
        "MessageNotification",
        "Outgoing",
        "Subscription",
        "SupportsHandover",
        "SupportsPush",
    ),
    "localqueue.brokers.queue_store": ("BrokerQueueStore",),
    "localqueue.brokers.store": ("StoreBroker",),
    "localqueue.brokers.url": ("open_broker",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _NAMES)
