"""The broker contract on Kafka."""

from __future__ import annotations

import pytest

from localqueue.brokers import open_broker
from localqueue.contracts.brokers import BrokerContract, BrokerHarness
from tests.broker_servers import Kafka


class TestKafka(BrokerContract):
    @pytest.fixture
    def harness(self, kafka: Kafka) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(kafka.url))
