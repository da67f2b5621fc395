"""SQS keeps the contract of a broker: standard and FIFO queues, on an emulator of its API."""

from __future__ import annotations

import pytest

from localqueue.brokers import open_broker
from localqueue.contracts.brokers import BrokerContract, BrokerHarness
from tests.broker_servers import SQS


class TestStandard(BrokerContract):
    @pytest.fixture
    def harness(self, sqs_server: SQS) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(sqs_server.url))


class TestFIFO(BrokerContract):
    @pytest.fixture
    def harness(self, sqs_server: SQS) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(f"{sqs_server.url}&fifo=true"))
