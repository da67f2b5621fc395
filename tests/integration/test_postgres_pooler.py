"""A `PostgresQueueStore` behind a real PgBouncer in transaction mode: everything but LISTEN."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from localqueue.contracts.steps import PATIENCE, Background, ack, counts, drain, new, put, put_many, release, take
from localqueue.errors import LeaseLost, QueueStoreError, RecordConflict
from localqueue.stores.port import Changes, Lease, LeaseRequest, Limit, RecordWrite, Settle
from localqueue.stores.postgres import PostgresQueueStore
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.servers import Postgres, Server

pytestmark = pytest.mark.slow

_SETTINGS = """
[databases]
postgres = host=127.0.0.1 port={server} user=test dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = {ignored}
"""


class PgBouncer(Server):
    """In front of a PostgreSQL, with four connections to it."""

    name = "pgbouncer"

    def __init__(self, server: Postgres, ignored: str) -> None:
        super().__init__()
        self.server = server
        self.ignored = ignored

    @property
    def url(self) -> str:
        return f"postgresql://test@127.0.0.1:{self.port}/postgres"

    def launch(self) -> subprocess.Popen[bytes]:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            pytest.skip("PgBouncer is not installed: run ./script/test, or install the package pgbouncer")
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(_SETTINGS.format(server=self.server.port, port=self.port, ignored=self.ignored))
        return self.run(program, str(settings), **self.as_user())

    def ready(self) -> bool:
        psycopg.connect(self.url, connect_timeout=2).close()
        return True


@pytest.fixture(scope="module")
def pooler() -> Iterator[Any]:
    """Starts a PgBouncer for the module, in front of the server it is first asked for, one for each setting; its
    address."""
    with ExitStack() as stack:
        started: dict[str, str] = {}

        def start(server: Postgres, ignored: str = "extra_float_digits") -> str:
            if ignored not in started:
                made = PgBouncer(server, ignored)
                stack.callback(made.stop)
                made.start()
                started[ignored] = made.url
            return started[ignored]

        yield start


@pytest.fixture
def store(pooler: Any, postgres: Postgres) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(pooler(postgres), namespace=secrets.token_hex(6), pooled=True) as store:
        yield store


def test_put_lease_renew_and_ack(store: PostgresQueueStore) -> None:
    ids = [store.put_one("jobs", str(n), None)[0] for n in range(20)]
    ids += store.put_batch("jobs", [str(n) for n in range(20, 300)], None)[0]
    messages = store.lease(LeaseRequest("jobs", 300, leased_by="w", max_attempts=3))
    assert [message.id for message in messages] == ids
    assert None not in store.renew([Lease("jobs", m.id, m.attempts) for m in messages], timeout=60)
    assert store.ack_one("jobs", ids[0], 1)
    store.commit(Changes(settle=[Settle("jobs", m.id, "ack", m.attempts) for m in messages[1:]]))
    assert counts(store) == {}
    assert store.check().ok


def test_commits_of_every_kind(store: PostgresQueueStore) -> None:
    first = put(store, dedupe_key="d", run_id="r")
    join = put(store, "joins", after=(first,), run_id="r")
    put_many(store, "ab", ordering_key="k")
    put(store, delay=0.01)
    store.commit(Changes(enqueue=[new(store, "small")], limits={"small": Limit(1, "drop-oldest")}))
    store.commit(Changes(enqueue=[new(store, "small")], limits={"small": Limit(1, "drop-oldest")}))
    assert store.stats("small").dropped == 1
    message = take(store)
    assert message.id == first
    record = RecordWrite("result", "a", b"1", 0)
    done = Changes(settle=[Settle("jobs", first, "ack", 1)], records=[record], lease=LeaseRequest("jobs", 10))
    assert store.commit(done).settled == [True]
    assert take(store, "joins").id == join
    with pytest.raises(LeaseLost):
        store.commit(done)
    with pytest.raises(RecordConflict):
        store.commit(Changes(records=[record]))
    release(store, take(store, "small"), error={"message": "no"})
    assert store.cancel_run("r") == 1
    assert store.purge("jobs") >= 2
    assert store.check().ok


def test_many_threads_share_the_few_sessions_of_the_pooler(store: PostgresQueueStore) -> None:
    threads = Background()
    for n in range(6):
        threads.start(lambda n: [put(store, payload=f"{n}-{m}", ordering_key=str(n)) for m in range(20)], n)
    threads.join()
    found: list[str] = []

    def consume() -> None:
        found.extend(drain(store))

    for _ in range(4):
        threads.start(consume)
    threads.join()
    found += drain(store)
    assert sorted(found) == sorted(f"{n}-{m}" for n in range(6) for m in range(20))
    for n in range(6):
        of_key = [payload for payload in found if payload.startswith(f"{n}-")]
        assert len(of_key) == 20
    assert store.check().ok


def test_the_journal_and_a_backup(store: PostgresQueueStore, tmp_path: Path) -> None:
    store.enable_journal()
    put_many(store, "abc")
    ack(store, take(store))
    store.backup(str(tmp_path / "copy"))
    assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5]
    with SQLiteQueueStore(tmp_path / "copy", namespace=store.namespace) as copy:
        assert copy.events() == store.events()
        assert copy.scan("jobs") == store.scan("jobs")
    store.disable_journal()


def test_without_an_address_to_listen_at_those_who_wait_look(store: PostgresQueueStore, postgres: Postgres) -> None:
    with PostgresQueueStore(postgres.url, namespace=store.namespace) as elsewhere, store.listen(["jobs"]) as waiter:
        assert not waiter.wait(0)
        put(elsewhere)
        assert waiter.wait(PATIENCE)
        assert store._ear._listener is None


def test_with_an_address_to_listen_at_they_are_woken(pooler: Any, postgres: Postgres) -> None:
    namespace = secrets.token_hex(6)
    options: dict[str, Any] = {"namespace": namespace, "pooled": True, "listen_url": postgres.url}
    with (
        PostgresQueueStore(pooler(postgres), **options) as store,
        PostgresQueueStore(postgres.url, namespace=namespace) as elsewhere,
        store.listen(["jobs"]) as waiter,
    ):
        assert store._ear._listener is not None and store._ear._listener.live
        assert not waiter.wait(0)
        put(elsewhere)
        assert waiter.wait(PATIENCE)


@pytest.mark.parametrize("ignored", ["extra_float_digits", "extra_float_digits, options"])
def test_the_error_without_pooled_names_it(pooler: Any, postgres: Postgres, ignored: str) -> None:
    """Whether the pooler refuses the settings of a session or drops them without a word."""
    with pytest.raises(QueueStoreError, match="pooled=True"):
        PostgresQueueStore(pooler(postgres, ignored), namespace=secrets.token_hex(6))


def test_put_inside_a_transaction_of_the_user_works_too(
    store: PostgresQueueStore, pooler: Any, postgres: Postgres
) -> None:
    with psycopg.connect(pooler(postgres)) as connection:
        store.commit_within(connection, Changes(enqueue=[new(store, dedupe_key="d")]))
        assert counts(store) == {}
        connection.commit()
    assert counts(store) == {"ready": 1}
