"""The broker contract on Redis Streams."""

from __future__ import annotations

import pytest

from localqueue.brokers import open_broker
from localqueue.contracts.brokers import BrokerContract, BrokerHarness
from tests.servers import Redis


class TestRedisStreams(BrokerContract):
    @pytest.fixture
    def harness(self, redis_server: Redis) -> BrokerHarness:
        url = redis_server.url.replace("redis://", "redis+stream://", 1)
        return BrokerHarness(open=lambda: open_broker(url))
