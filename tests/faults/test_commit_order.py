"""Hosts whose clocks disagree take turns in putting: what comes out is in the order of the commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from localqueue.contracts.steps import assert_sound, drain, payloads
from localqueue.stores.port import Changes, NewMessage
from tests.faults.hosts import Host
from tests.stores import SERVERS, Place, on_server, shared

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

HOUR = 3600.0
A_LITTLE = 0.02


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Place:
    return on_server(shared(SERVERS[request.param]))


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.open() as store:
        yield store


@pytest.fixture(params=[(A_LITTLE, HOUR), (-A_LITTLE, HOUR), (A_LITTLE, -HOUR)], ids=["ahead", "apart", "behind"])
def hosts(request: pytest.FixtureRequest, place: Place) -> Iterator[Sequence[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Host(place, off)) for off in request.param]


def put(host: Any, payload: str, **options: Any) -> None:
    (message_id,) = host.mint()
    host.commit(Changes(enqueue=[NewMessage(message_id, "jobs", payload, **options)]))


def put_plain(host: Any, payload: str) -> None:
    host.put_one("jobs", payload, None)


def put_keyed(host: Any, payload: str) -> None:
    put(host, payload, ordering_key="k")


#: Plain messages are in order as far as the server's clock can be known beforehand, those of a key always.
in_turns = pytest.mark.parametrize(
    ("put_next", "turns", "apart"), [(put_plain, 20, A_LITTLE / 2), (put, 20, A_LITTLE / 2), (put_keyed, 60, 0.0)]
)


@in_turns
def test_hosts_that_take_turns_put_in_the_order_of_their_turns(
    store: Any, hosts: Sequence[Any], put_next: Any, turns: int, apart: float
) -> None:
    expected = list(map(str, range(turns)))
    for n, payload in enumerate(expected):
        put_next(hosts[n % len(hosts)], payload)
        put_at = store.now()
        while store.now() < put_at + apart:
            pass
    assert drain(store) == expected
    assert_sound(store)


@in_turns
def test_a_page_after_the_last_message_seen_misses_none(
    store: Any, hosts: Sequence[Any], put_next: Any, turns: int, apart: float
) -> None:
    expected = list(map(str, range(turns)))
    seen: list[Any] = []
    for n, payload in enumerate(expected):
        while seen and store.now() < seen[-1].created_at + apart:
            pass
        put_next(hosts[n % len(hosts)], payload)
        seen += store.scan("jobs", after=seen[-1].id if seen else None)
    assert payloads(seen) == expected
    assert_sound(store)
