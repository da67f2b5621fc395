"""RabbitMQ keeps the broker contract, with quorum queues and with classic ones."""

from __future__ import annotations

import pytest

from localqueue.brokers import open_broker
from localqueue.contracts.brokers import BrokerContract, BrokerHarness
from tests.broker_servers import RabbitMQ


class TestQuorumQueues(BrokerContract):
    @pytest.fixture
    def harness(self, rabbitmq: RabbitMQ) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(rabbitmq.url))


class TestClassicQueues(BrokerContract):
    @pytest.fixture
    def harness(self, rabbitmq: RabbitMQ) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(f"{rabbitmq.url}?queue_type=classic"))
