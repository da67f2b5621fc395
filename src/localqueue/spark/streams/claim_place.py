"""Where a consumer's messages and claims are: both in one store, or messages at a broker and claims in a store."""

from __future__ import annotations

from typing import cast

from localqueue.spark.options import OptionError, Options
from localqueue.stores.port import QueueStore
from localqueue.stores.url import open_store


def open_place(options: Options) -> tuple[QueueStore, str]:
    """The place open, and what the queue is called in the claims. Only the claim store of a broker is made if need be:
    where there are no messages nothing is made, and it is a `QueueStoreMissingError`."""
    queue = options.need_queue()
    if not options.at_broker:
        open_store(options.url, namespace=options.namespace, read_only=True).close()
        return open_store(options.url, namespace=options.namespace), queue
    from localqueue.brokers.url import open_broker
    from localqueue.spark.streams.broker_queue import BrokerQueue

    assert options.consumer is not None
    broker = open_broker(options.url)
    can = broker.capabilities
    name = f"{can.name}:{queue}"
    try:
        if options.max_attempts is not None and not can.counts_deliveries:
            raise OptionError(
                f"option 'maxAttempts' is not for {can.name}, which does not count deliveries: leave it out"
            )
        store = open_store(options.store_url, namespace=options.namespace)
    except BaseException:
        broker.close()
        raise
    opened = BrokerQueue(broker, queue, store, name=name, consumer=options.consumer, lease=options.claim_timeout)
    return cast(QueueStore, opened), name
