"""What a user of the Redis server must be allowed to do: a store says so when it is opened, and a notification that is
not allowed never decides about a commit."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import redis

from localqueue import PersistentQueue, Worker
from localqueue.contracts.steps import PATIENCE, Background, ack, assert_sound, drain, put, put_many, take
from localqueue.errors import QueueStoreError
from localqueue.stores.port import Changes, Settle
from localqueue.stores.redis import RedisQueueStore, privileges, schema
from tests.servers import Redis

pytestmark = pytest.mark.server

DOCS = Path(__file__).parents[2] / "docs" / "stores.md"
PASSWORD = "s3cret"
_fresh = itertools.count()

Allow = Callable[..., str]


@pytest.fixture
def admin(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        yield client


@pytest.fixture
def name() -> str:
    """Of the user, and of the namespace."""
    return f"user-{os.getpid()}-{next(_fresh)}"


@pytest.fixture
def allow(admin: redis.Redis, redis_server: Redis, name: str) -> Iterator[Allow]:
    """Gives the user these privileges, and nothing else; the address for him."""

    def allow(*words: str) -> str:
        admin.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *words)
        return redis_server.url.replace("redis://", f"redis://{name}:{PASSWORD}@")

    yield allow
    admin.execute_command("ACL", "DELUSER", name)


def _words_of_the_page(line: str) -> list[str]:
    """The words of the `ACL SETUSER` line for this user of the page, without the password."""
    (found,) = re.findall(rf"^ACL SETUSER {line} on >\S+ (.*)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    return found.split()


def _names(commands: Sequence[str]) -> set[str]:
    return {command.split()[0] for command in commands}


# a notification decides about nothing


def test_what_was_put_without_the_right_to_publish_was_put(allow: Allow, name: str, admin: redis.Redis) -> None:
    """The words are those of a user as people make him; the right to any channel was taken from him since."""
    with RedisQueueStore(allow("~*", "+@all", "&*"), namespace=name) as store:
        admin.execute_command("ACL", "SETUSER", name, "resetchannels")
        queue = PersistentQueue[int]("jobs", store=store)
        queue.put(1)
        queue.put_many([2, 3])
        with queue.transaction() as transaction:
            transaction.put(4)
            transaction.put(5, delay=60)
        assert store.put_one("one", "6", None)
        released = take(store, "jobs")
        store.commit(Changes(settle=[Settle("jobs", released.id, "release", released.attempts)]))
        store.resume("jobs")
        assert drain(store, "jobs") == ["2", "3", "4", "1"]
        assert len(store.scan("jobs")) == 1
        assert_sound(store, ["jobs", "one"])


def test_who_waits_without_the_right_to_subscribe_finds_by_looking(
    allow: Allow, name: str, admin: redis.Redis, redis_server: Redis
) -> None:
    with (
        RedisQueueStore(allow("~*", "+@all", "&*"), namespace=name) as consumer,
        RedisQueueStore(redis_server.url, namespace=name) as producer,
    ):
        admin.execute_command("ACL", "SETUSER", name, "resetchannels")
        found = threading.Event()

        def wait() -> None:
            with consumer.listen(["jobs"]) as waiter:
                assert waiter.wait(PATIENCE)
                found.set()

        threads = Background()
        threads.start(wait)
        producer.put_one("jobs", "x", None)
        assert found.wait(PATIENCE)
        threads.join()


# what is missing is named when the store is opened


def _refusal(url: str, name: str, **options: bool) -> str:
    with pytest.raises(QueueStoreError) as raised:
        RedisQueueStore(url, namespace=name, **options)  # type: ignore[arg-type]
    text = f"{raised.value} {raised.value.path}"
    assert PASSWORD not in text and f"redis://{name}@127.0.0.1" in text
    return text


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["~*", "+@all", "resetchannels"], "&lq:*"),
        (["~*", "&*", "+@all", "-publish"], "+publish"),
        (["~*", "&*", "+@all", "-subscribe"], "+subscribe"),
        (["~*", "&*", "+@all", "-subscribe", "-publish"], "+publish +subscribe`"),
        (["~other:*", "&*", "+@all"], "~lq:*"),
        (["%R~lq:*", "&*", "+@all"], "~lq:*"),
        (["&lq:*", "+@all"], "~lq:*"),
        (["~*", "&*", "+@all", "-fcall"], "+fcall"),
        (["~*", "&*", "+@all", "-fcall_ro"], "+fcall_ro"),
        (["~*", "&*", "+@all", "-info"], "+info"),
        (["~*", "&*", "+@all", "-@sortedset"], "+zadd"),
        (["~*", "&*", "+@all", "-@scripting"], "+fcall_ro"),
        (["~*", "resetchannels", "+@all", "-hset", "-xadd"], "&lq:* +hset +xadd"),
    ],
)
def test_what_a_user_may_not_do_is_named_with_the_words_to_allow_it(
    allow: Allow, name: str, admin: redis.Redis, words: list[str], missing: str
) -> None:
    url = allow(*words)
    assert f"`ACL SETUSER {name} {missing}" in _refusal(url, name)
    assert list(admin.scan_iter(match=schema.root(name).decode() + "*")) == [], "nothing was made"


def test_functions_that_are_not_there_and_may_not_be_loaded_are_named(allow: Allow, name: str) -> None:
    server = Redis("--appendonly", "yes")
    server.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", name, "on", f">{PASSWORD}", "~*", "&*", "+@all", "-function|load")
        url = server.url.replace("redis://", f"redis://{name}:{PASSWORD}@")
        assert f"`ACL SETUSER {name} +function|load" in _refusal(url, name)
        RedisQueueStore(server.url).close()  # loads them for everybody
        with RedisQueueStore(url, namespace=name) as store:
            store.put_one("jobs", "x", None)
    finally:
        server.stop()


def test_a_database_that_may_not_be_selected_is_named(allow: Allow, name: str) -> None:
    url = allow("~*", "&*", "+@all", "-select").replace("/0", "/1")
    assert f"`ACL SETUSER {name} +select" in _refusal(url, name)


def test_a_wrong_password_is_refused_and_not_shown(allow: Allow, name: str) -> None:
    url = allow("~*", "&*", "+@all").replace(PASSWORD, "wr0ng")
    assert "wr0ng" not in _refusal(url, name)


@pytest.mark.parametrize("word", sorted(_names(privileges.WRITER)))
def test_each_command_of_a_store_is_looked_for(allow: Allow, name: str, word: str) -> None:
    url = allow("~lq:*", "&lq:*", "+@all", f"-{word}")
    assert f"`ACL SETUSER {name} +{word}`" in _refusal(url, name)


@pytest.mark.parametrize("word", sorted(_names(privileges.LOOKER)))
def test_each_command_of_a_store_that_looks_is_looked_for(
    allow: Allow, redis_server: Redis, name: str, word: str
) -> None:
    RedisQueueStore(redis_server.url, namespace=name).close()
    url = allow("%R~lq:*", "&lq:*", "+@all", f"-{word}")
    assert f"`ACL SETUSER {name} +{word}`" in _refusal(url, name, read_only=True)


def test_no_command_is_forgotten() -> None:
    """Every command that stands in the source is looked for when a store is opened, or is one of a few."""
    folder = Path(schema.__file__).parent
    lua = "".join(path.read_text() for path in folder.glob("lua/*.lua"))
    python = "".join(path.read_text() for path in folder.glob("*.py"))
    used = set(re.findall(r"'([A-Z]{3,})'", lua)) | set(re.findall(r'b"([A-Z_]{3,})"', python))
    options = {"COUNT", "LIMIT", "WITHSCORES", "GET", "LOAD", "SLOTS", "PURGE"}
    elsewhere = {"FUNCTION", "CONFIG", "CLUSTER", "ASKING", "MEMORY"}  # asked for where and when they are needed
    assert {one.lower() for one in used - options - elsewhere} == _names(privileges.WRITER)


# the least that is enough


def test_the_page_shows_what_the_errors_show() -> None:
    assert _words_of_the_page("jobs") == privileges.LEAST.split()


def test_the_user_of_the_page_can_do_everything(allow: Allow, name: str, tmp_path: Path) -> None:
    url = allow(*_words_of_the_page("jobs"))
    with RedisQueueStore(url, namespace=name) as store:
        store.enable_journal(keep_events=100)
        first = put(store, payload="1", dedupe_key="d", ordering_key="k", run_id="r", ttl=500, priority=2)
        put(store, payload="2", ordering_key="k", after=(first,))
        put_many(store, "345", delay=0.001)
        store.put_batch("jobs", ["6", "7"], None)
        with store.listen(["other"]) as waiter, store.listen_run("r") as run:
            assert not waiter.wait(0)
            store.put_one("other", "x", None)
            assert waiter.wait(PATIENCE)
            message = take(store, leased_by="w")
            assert message.id == first and ack(store, message)
            assert run.wait(PATIENCE)
        store.renew([], timeout=5)
        store.heartbeat("jobs", "w", leases=1)
        held = take(store)
        store.commit(Changes(settle=[Settle("jobs", held.id, "dead-letter", held.attempts)]))
        assert store.requeue("jobs") == 1
        store.subscribe("topic", "s")
        store.pause("jobs")
        store.resume("jobs")
        assert len(store.scan("jobs")) == 6 and store.splits("jobs", 2) and store.stats("jobs").total == 6
        assert store.runs() == ["r"] and store.run("r") and store.queues() and store.events()
        store.prune_events(older_than=0)
        done: list[object] = []
        Worker(PersistentQueue("jobs", store=store), done.append).run_until_empty(signals=False)
        assert sorted(map(str, done)) == list("234567")
        assert store.purge("other") == 1
        assert_sound(store)
        store.backup(str(tmp_path / "copy.db"))
        with pytest.raises(QueueStoreError, match=r"\+memory\|purge"):
            store.compact()


def test_the_user_of_the_page_who_looks_can_look(allow: Allow, redis_server: Redis, name: str, tmp_path: Path) -> None:
    with RedisQueueStore(redis_server.url, namespace=name) as writer:
        put(writer, run_id="r")
        with RedisQueueStore(allow(*_words_of_the_page("viewer")), namespace=name, read_only=True) as looker:
            assert looker.stats("jobs").ready == 1 and looker.queues() == ["jobs"] and looker.runs() == ["r"]
            assert [message.payload for message in looker.scan("jobs")] == ["x"]
            assert looker.check().ok
            with looker.listen(["other"]) as waiter:
                assert not waiter.wait(0)
                writer.put_one("other", "x", None)
                assert waiter.wait(PATIENCE)
            looker.backup(str(tmp_path / "copy.db"))
            client = redis.Redis.from_url(allow(*_words_of_the_page("viewer")))
            with client, pytest.raises(redis.ResponseError):
                client.hset(schema.root(name), "version", "x")


def test_the_user_of_the_page_can_reach_nothing_else(allow: Allow, name: str, admin: redis.Redis) -> None:
    with redis.Redis.from_url(allow(*_words_of_the_page("jobs"))) as client:
        for command in (
            ["HSET", "other", "a", "b"],
            ["PUBLISH", "other", "x"],
            ["KEYS", "*"],
            ["FLUSHALL"],
            ["ACL", "LIST"],
        ):
            with pytest.raises(redis.ResponseError, match="permission"):
                client.execute_command(*command)


def test_durability_is_looked_at_with_one_word_more(allow: Allow, name: str) -> None:
    url = allow(*_words_of_the_page("jobs"))
    with pytest.raises(QueueStoreError, match=re.escape(f"`ACL SETUSER {name} +config|get`")):
        RedisQueueStore(url, namespace=name, durability="power")
    RedisQueueStore(allow(*_words_of_the_page("jobs"), "+config|get"), namespace=name, durability="power").close()
