# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.brokers.capabilities import (
    BrokerCapabilities as BrokerCapabilities,
    CAPABILITIES as CAPABILITIES,
    capabilities_of as capabilities_of,
)
from localqueue.brokers.hybrid import (
    AsyncHybridConsumer as AsyncHybridConsumer,
    HybridConsumer as HybridConsumer,
)
from localqueue.brokers.port import (
    Available as Available,
    Broker as Broker,
    BrokerStats as BrokerStats,
    Delivery as Delivery,
    Health as Health,
    Message as Message,
    MessageNotification as MessageNotification,
    Outgoing as Outgoing,
    Subscription as Subscription,
    SupportsHandover as SupportsHandover,
    SupportsPush as SupportsPush,
)
from localqueue.brokers.queue_store import BrokerQueueStore as BrokerQueueStore
from localqueue.brokers.store import StoreBroker as StoreBroker
from localqueue.brokers.url import open_broker as open_broker
