"""Rules for the whole test run."""

from __future__ import annotations

import gc
import os
import signal
import zlib
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from tests import processes
from tests.broker_servers import SQS, Kafka, RabbitMQ, pgmq_url
from tests.servers import MongoDB, Postgres, Redis, shared

assert processes  # what children have imported is said before the first one starts


def pytest_configure(config: pytest.Config) -> None:
    """What the shell of the run has set does not reach the tests: a default store, and to ignore Ctrl-C, which a shell
    has what it starts in the background do."""
    for name in ("LOCALQUEUE_BACKEND", "LOCALQUEUE_URL", "LOCALQUEUE_NAMESPACE"):
        os.environ.pop(name, None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")  # how fast a busy machine is says nothing about what it runs
    gc.disable()  # thousands of tests are collected, and stay; see pytest_collection_finish


OTHER_STORES = {"memory", "lmdb"}
SERVERS = {"postgres", "redis", "mongodb", "rabbitmq", "kafka", "sqs", "pgmq"}
BROKER_FIXTURES = {"rabbitmq", "kafka", "sqs_server", "pgmq"}
SERVERS_OF_THEIR_OWN = {"test_outages", "test_broker_servers"}
SERVER_FIXTURES = {"postgres", "redis_server", "mongodb", "rabbitmq", "kafka", "sqs_server", "pgmq"}
STORE_FIXTURES = ("store", "place", "kind", "queue_store")
IN_TURN = ("lmdb", "postgres", "redis", "mongodb")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick tier takes a test that is run for every store on SQLite only; memory shares its code.

    A test that is run in threads and on an event loop runs on the loop for three stores: both drive the same steps.
    """
    items[:] = [item for item in items if not _repeats_on_the_loop(item) and _has_its_turn(item)]
    for item in items:
        callspec = getattr(item, "callspec", None)
        names = set() if callspec is None else set(callspec.id.split("-"))
        if names & OTHER_STORES or (item.cls is not None and item.cls.__name__ == "TestMemory"):
            item.add_marker(pytest.mark.slow)
        servers = set(getattr(item, "fixturenames", ())) & SERVER_FIXTURES
        if names & SERVERS or servers:
            item.add_marker(pytest.mark.server)
        _group(item, servers)


def pytest_collection_finish() -> None:
    """Garbage is looked for again, but not among what was collected."""
    gc.freeze()
    gc.enable()


def _group(item: pytest.Item, servers: set[str]) -> None:
    """The tests of one broker run in one process, where it is started once; so do those with servers of their own."""
    brokers = sorted(servers & BROKER_FIXTURES)
    if brokers or item.path.stem in SERVERS_OF_THEIR_OWN:
        item.add_marker(pytest.mark.xdist_group(brokers[0] if brokers else item.path.stem))


def _repeats_on_the_loop(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    names = set() if callspec is None else set(callspec.id.split("-"))
    return "loop" in names and bool(names & {"lmdb", "redis", "mongodb"})


def _has_its_turn(item: pytest.Item) -> bool:
    """Of the stores beside SQLite one has its turn at each test that is marked `by_turns`; always the same."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.get_closest_marker("by_turns") is None:
        return True
    kind = next((callspec.params[name] for name in STORE_FIXTURES if name in callspec.params), "sqlite")
    turn = zlib.crc32(item.name.replace(kind, "", 1).encode()) % len(IN_TURN)
    return kind == IN_TURN[turn] or kind not in ("memory", *IN_TURN)


def _skipped_in_ci(config: pytest.Config) -> Sequence[pytest.TestReport]:
    if os.environ.get("CI") != "true":
        return []
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter is not None else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test that did not run proves nothing: under CI=true a skip fails the run."""
    if _skipped_in_ci(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = _skipped_in_ci(terminalreporter.config)
    if not skipped:
        return
    terminalreporter.section("skipped, which CI=true does not allow", red=True)
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {reason}")


@pytest.fixture
def postgres() -> Postgres:
    """The PostgreSQL of this test process; give each test a namespace of its own."""
    return cast(Postgres, shared(Postgres))


@pytest.fixture
def redis_server() -> Redis:
    return cast(Redis, shared(Redis))


@pytest.fixture
def mongodb() -> MongoDB:
    return cast(MongoDB, shared(MongoDB))


@pytest.fixture
def rabbitmq() -> RabbitMQ:
    """The RabbitMQ of this test process; give each test queues of its own."""
    return cast(RabbitMQ, shared(RabbitMQ))


@pytest.fixture
def kafka() -> Kafka:
    """The Kafka of this test process; give each test topics and groups of its own."""
    return cast(Kafka, shared(Kafka))


@pytest.fixture
def sqs_server() -> SQS:
    """An emulator of Amazon SQS; give each test queues of its own."""
    return cast(SQS, shared(SQS))


@pytest.fixture
def pgmq(postgres: Postgres) -> str:
    """The URL of a database with PGMQ in the PostgreSQL of this test process; give each test queues of its own."""
    return pgmq_url(postgres)
