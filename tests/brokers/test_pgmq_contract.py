"""PGMQ keeps the contract of a broker."""

from __future__ import annotations

import pytest

from localqueue.brokers import open_broker
from localqueue.contracts.brokers import BrokerContract, BrokerHarness


class TestPGMQ(BrokerContract):
    @pytest.fixture
    def harness(self, pgmq: str) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(pgmq))
