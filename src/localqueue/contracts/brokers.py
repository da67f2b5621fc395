"""What every broker promises, and what its capabilities decide.

A subclass named `Test...` provides the fixture `harness`. What a capability says is there is used; what it says is
missing must be refused. So every test asserts something of every broker, and a row of the table that lies fails.
"""

from __future__ import annotations

from localqueue.contracts.broker_capabilities import BrokerCapabilitiesContract
from localqueue.contracts.broker_delivery import BrokerDeliveryContract
from localqueue.contracts.broker_harness import BrokerHarness
from localqueue.contracts.broker_push import BrokerPushContract
from localqueue.contracts.broker_queues import BrokerQueueContract

__all__ = ["BrokerContract", "BrokerHarness"]


class BrokerContract(BrokerDeliveryContract, BrokerCapabilitiesContract, BrokerPushContract, BrokerQueueContract):
    """All of the port: deliveries, capabilities, push, and the broker as the store of a queue."""
