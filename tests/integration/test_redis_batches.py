"""A batch becomes what its messages become one by one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localqueue.contracts import FakeClock
from localqueue.contracts.steps import new, put, take
from localqueue.errors import IdTaken, LeaseLost, QueueFull
from localqueue.stores.port import Changes, Enqueued, Limit, RecordWrite, Settle, StoredMessage
from localqueue.stores.redis import RedisQueueStore
from tests.servers import Redis

_fresh = itertools.count()
QUEUES = ("jobs", "other")

messages = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(QUEUES),
        "dedupe_key": st.sampled_from(("a", "b", "c")),
        "ordering_key": st.sampled_from(("k", "l")),
        "delay": st.sampled_from((0.0, 5.0, 30.0)),
        "ttl": st.sampled_from((0.0, 10.0, 50.0)),
        "priority": st.integers(-2, 2),
        "headers": st.just('{"a":1}'),
        "run_id": st.sampled_from(("r", "s")),
        "codec": st.just("json"),
    },
)


limits = st.dictionaries(
    st.just("jobs"),
    st.sampled_from((Limit(4, "drop-oldest"), Limit(3, "drop-newest"), Limit(2, "overflow-queue", "other"))),
)


@pytest.fixture
def opened(redis_server: Redis) -> Iterator[list[RedisQueueStore]]:
    stores: list[RedisQueueStore] = []
    yield stores
    for store in stores:
        store.close()


def _pair(opened: list[RedisQueueStore], url: str, clock: FakeClock) -> tuple[RedisQueueStore, RedisQueueStore]:
    number = f"{os.getpid()}-{next(_fresh)}"
    pair = [RedisQueueStore(url, namespace=f"batch-{number}-{side}", clock=clock) for side in "ab"]
    opened.extend(pair)
    for store in pair:
        store.enable_journal()
    return pair[0], pair[1]


def _named(message: StoredMessage | None) -> Any:
    return message and message._replace(id="", record=None)


def _told(one: Enqueued) -> Any:
    return one._replace(existing=_named(one.existing))


def _everything(store: RedisQueueStore) -> Any:
    return {
        "messages": [[_named(message) for message in store.scan(queue)] for queue in QUEUES],
        "stats": [store.stats(queue) for queue in QUEUES],
        "runs": [(store.run(run), [_named(one) for one in store.run_messages(run)]) for run in store.runs()],
        "events": [(event.at, event.type, event.queue, event.payload, event.options) for event in store.events()],
        "problems": store.check().problems,
    }


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(
        st.tuples(st.lists(messages, min_size=1, max_size=12), limits, st.sampled_from((0, 7, 40))), max_size=4
    )
)
def test_a_batch_is_what_its_messages_are_one_by_one(
    redis_server: Redis,
    opened: list[RedisQueueStore],
    batches: list[tuple[list[dict[str, Any]], dict[str, Limit], int]],
) -> None:
    clock = FakeClock()
    whole, apart = _pair(opened, redis_server.url, clock)
    for number, (options, limits, seconds) in enumerate(batches):
        together = [new(whole, payload=f"{number}.{n}", **one) for n, one in enumerate(options)]
        alone = [new(apart, payload=f"{number}.{n}", **one) for n, one in enumerate(options)]
        told = whole.commit(Changes(enqueue=together, limits=limits)).enqueued
        told_alone = [apart.commit(Changes(enqueue=[one], limits=limits)).enqueued[0] for one in alone]
        assert [_told(one) for one in told] == [_told(one) for one in told_alone]
        clock.advance(seconds)
    assert _everything(whole) == _everything(apart)


@pytest.fixture
def store(redis_server: Redis) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=f"batches-{os.getpid()}-{next(_fresh)}") as store:
        yield store


def test_a_batch_with_keys_is_few_commands(store: RedisQueueStore, redis_server: Redis) -> None:
    store.heartbeat("jobs", "w")
    with redis.Redis.from_url(redis_server.url) as client:
        client.config_resetstat()
        store.commit(
            Changes(
                enqueue=[new(store, dedupe_key=f"d{n}", ordering_key=f"o{n // 2}", delay=n % 2) for n in range(2000)],
                limits={"jobs": Limit(5000)},
            )
        )
        calls = sum(of["calls"] for of in client.info("commandstats").values())
    assert calls < 100
    assert store.check().ok


@pytest.mark.parametrize("spoil", ["settle", "id", "capacity"])
def test_a_batch_that_is_refused_stores_nothing(store: RedisQueueStore, spoil: str) -> None:
    put(store, "other")
    held = take(store, "other")
    batch = [new(store, dedupe_key=f"d{n}", ordering_key="k", delay=n % 3) for n in range(50)]
    changes, error = Changes(enqueue=batch), IdTaken
    if spoil == "settle":
        changes.settle, error = [Settle("other", held.id, "ack", held.attempts + 1)], LeaseLost
    elif spoil == "id":
        changes.enqueue = [*batch, batch[0]._replace(dedupe_key=None)]
    else:
        changes.limits, error = {"jobs": Limit(10)}, QueueFull
    with pytest.raises(error):
        store.commit(changes)
    assert store.scan("jobs") == []
    assert store.check().ok
    assert [one.outcome for one in store.commit(Changes(enqueue=batch)).enqueued] == ["stored"] * 50


def test_a_commit_tells_the_versions_of_its_records(store: RedisQueueStore) -> None:
    writes = [RecordWrite("result", "a", b"1"), RecordWrite("result", "b", b"2"), RecordWrite("result", "c", None)]
    first = store.commit(Changes(records=writes)).versions
    assert first[2] == 0
    assert [store.record("result", key).version for key in "ab"] == first[:2]  # type: ignore[union-attr]
    again = store.commit(Changes(enqueue=[new(store, delay=1)], records=[RecordWrite("result", "a", b"3", first[0])]))
    assert store.record("result", "a").version == again.versions[0]  # type: ignore[union-attr]
    assert store.commit(Changes(records=[RecordWrite("result", "a", None, again.versions[0])])).versions == [0]
