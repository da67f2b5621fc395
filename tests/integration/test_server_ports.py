"""The servers of the tests start although somebody was quicker to take their ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests import servers
from tests.integration.test_postgres_pooler import PgBouncer
from tests.integration.test_redis_cluster import Node
from tests.servers import Postgres, Redis, Server, free_port
from tests.stores import SERVERS

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(params=[*SERVERS, "node", "pgbouncer"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "pgbouncer":
        postgres: Postgres = request.getfixturevalue("postgres")
        made: Server = PgBouncer(postgres, "extra_float_digits")
    else:
        made = Node() if request.param == "node" else SERVERS[request.param]()
    yield made
    made.stop()


def take(port: int) -> socket.socket:
    other = socket.socket()
    other.bind(("127.0.0.1", port))
    other.listen()
    return other


def test_a_server_whose_port_is_taken_starts_on_another_and_comes_back_there(server: Server) -> None:
    first = server.port
    with take(first):
        server.start()
        assert server.port != first
        assert str(server.port) in server.url
        assert server.ready()
    then = server.port
    server.kill()
    server.start()
    assert server.port == then


def test_a_node_of_a_cluster_whose_second_port_is_taken_starts_on_others() -> None:
    node = Node()
    try:
        first = node.bus
        with take(first):
            node.start()
            assert node.bus != first
            with node.client as client:
                assert client.ping()
    finally:
        node.stop()


def test_a_server_that_answers_on_the_port_is_not_taken_for_the_own_one(redis_server: Redis) -> None:
    server = Redis()
    try:
        server.port = redis_server.port
        server.start()
        assert server.port != redis_server.port
    finally:
        server.stop()


def test_a_server_that_can_not_come_back_to_its_port_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_TRIES", 2)
    server = Redis()
    try:
        server.start()
        server.kill()
        said = rf"(?s)no free port in 2 tries, the last was {server.port}: .*in use"
        with take(server.port), pytest.raises(RuntimeError, match=said):
            server.start()
    finally:
        server.stop()


def test_a_free_port_is_one_that_nobody_has() -> None:
    port = free_port()
    with take(port):
        assert all(free_port() != port for _ in range(100))
