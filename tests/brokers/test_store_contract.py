"""Every store behind the broker port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localqueue.brokers import StoreBroker, open_broker
from localqueue.contracts import BrokerContract, BrokerHarness
from localqueue.stores.sqlite import MemoryQueueStore


class TestSQLite(BrokerContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(f"sqlite:///{tmp_path}/jobs.db"))


class TestMemory(BrokerContract):
    @pytest.fixture
    def harness(self) -> Iterator[BrokerHarness]:
        with MemoryQueueStore() as store:
            yield BrokerHarness(open=lambda: StoreBroker(store))


@pytest.mark.slow
class TestLMDB(BrokerContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(f"lmdb:///{tmp_path}/jobs"))


@pytest.mark.server
class TestPostgres(BrokerContract):
    @pytest.fixture
    def harness(self, postgres: object) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(postgres.url, namespace="brokers"))  # type: ignore[attr-defined]


@pytest.mark.server
class TestRedis(BrokerContract):
    @pytest.fixture
    def harness(self, redis_server: object) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(redis_server.url, namespace="brokers"))  # type: ignore[attr-defined]


@pytest.mark.server
class TestMongoDB(BrokerContract):
    @pytest.fixture
    def harness(self, mongodb: object) -> BrokerHarness:
        return BrokerHarness(open=lambda: open_broker(mongodb.url, namespace="brokers"))  # type: ignore[attr-defined]
