"""The least that roles of a PostgreSQL server have to be allowed, as docs/stores.md says it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from localqueue import PersistentQueue
from localqueue.contracts.steps import PATIENCE, assert_sound, drain, put, put_many
from localqueue.errors import QueueStoreError
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores.port import Changes, LeaseRequest, RecordWrite, Settle
from localqueue.stores.postgres import PostgresQueueStore, schema
from tests.servers import Postgres

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "stores.md"


class Roles:
    """A database of an administrator, and the roles of the page: an owner, one who works and one who looks."""

    def __init__(self, server: str) -> None:
        self._mark = f"t{secrets.token_hex(6)}"
        self._server = server
        self._url = f"{server.rsplit('/', 1)[0]}/{self._mark}"
        self.execute(f"CREATE DATABASE {self._mark}", at=server)

    def follow_the_page(self) -> None:
        page = DOCS.read_text(encoding="utf-8").split("### PostgreSQL")[1].split("### Redis")[0]
        (block,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        self.execute(re.sub(r"\bjobs(_\w+)?\b", lambda role: self._role(role[0]), block))

    def _role(self, name: str) -> str:
        return f"{self._mark}_{name}"

    def url(self, role: str) -> str:
        return self._url.replace("//test@", f"//{self._role(role)}@")

    def execute(self, script: str, at: str | None = None) -> None:
        with psycopg.connect(at or self._url, autocommit=True) as connection:
            connection.execute(re.sub(r"\{(\w+)\}", lambda role: self._role(role[1]), script))  # type: ignore[call-overload]

    def remove(self) -> None:
        self.execute(f"DROP DATABASE {self._mark} WITH (FORCE)", at=self._server)
        with psycopg.connect(self._server, autocommit=True) as connection:
            made = connection.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", (self._mark,))
            for (role,) in made.fetchall():
                connection.execute(f"DROP ROLE {role}")  # type: ignore[call-overload]


@pytest.fixture
def roles(postgres: Postgres) -> Iterator[Roles]:
    roles = Roles(postgres.url)
    yield roles
    roles.remove()


def test_the_roles_of_the_page_are_enough(roles: Roles, tmp_path: Path) -> None:
    roles.follow_the_page()
    with PostgresQueueStore(roles.url("jobs_owner")) as store:
        store.enable_journal()
    with PostgresQueueStore(roles.url("jobs")) as store:
        _do_everything(store, tmp_path)
        queue = PersistentQueue[Any]("jobs", store=store, ordering_policy=PerKeyFifoOrdering(), maxsize=10)
        with psycopg.connect(roles.url("jobs")) as connection:
            queue.put("x", ordering_key="k", dedupe_key="d", run_id="another", connection=connection)
            connection.commit()
        with PostgresQueueStore(roles.url("jobs_viewer"), read_only=True) as viewer:
            assert viewer.stats("jobs").ready == 1 and len(viewer.events()) == len(store.events())
            viewer.backup(tmp_path / "seen.sqlite3")


def _do_everything(store: PostgresQueueStore, folder: Path) -> None:
    with store.listen(["jobs"]) as waiter:
        store.put_one("jobs", "x", None)
        assert waiter.wait(PATIENCE)
    put_many(store, map(str, range(200)), ttl=0.001)
    put(store, payload="fails")
    first = put(store, dedupe_key="d", ordering_key="k", run_id="r")
    put(store, after=(first,), ordering_key="k", run_id="r")
    store.subscribe("news", "jobs")
    store.heartbeat("jobs", "w")
    for message in store.lease(LeaseRequest("jobs", 5, 30.0, "w")):
        action: Any = "dead-letter" if message.payload == "fails" else "ack"
        records = [RecordWrite("kind", message.id, b"v")]
        store.commit(Changes(settle=[Settle("jobs", message.id, action, message.attempts)], records=records))
    assert store.requeue("jobs") == 1
    drain(store)
    assert store.prune("jobs", state="expired", older_than=0) == 200
    store.pause("jobs")
    store.resume("jobs")
    assert store.cancel_run("r") == 0 and store.purge("jobs") == 0
    store.prune_events(older_than=0)
    assert_sound(store)
    store.backup(folder / "copy.sqlite3")


@pytest.mark.parametrize(
    ("taken", "named"),
    [
        ("INSERT ON localqueue.lq_guests FROM", "INSERT ON TABLE localqueue.lq_guests"),
        ("DELETE ON localqueue.lq_dependencies FROM", "DELETE ON TABLE localqueue.lq_dependencies"),
        ("UPDATE ON ALL TABLES IN SCHEMA localqueue FROM", "UPDATE ON TABLE localqueue.lq_attempts, UPDATE ON"),
        ("EXECUTE ON FUNCTION localqueue.lq_step FROM public,", "EXECUTE ON FUNCTION localqueue.lq_step"),
        ("USAGE ON SCHEMA localqueue FROM", "permission denied for schema localqueue"),
    ],
)
def test_a_privilege_that_is_missing_is_named_when_the_store_is_opened(roles: Roles, taken: str, named: str) -> None:
    roles.follow_the_page()
    PostgresQueueStore(roles.url("jobs_owner")).close()
    PostgresQueueStore(roles.url("jobs")).close()
    roles.execute(f"REVOKE {taken} {{jobs}}")
    with pytest.raises(QueueStoreError, match=named):
        PostgresQueueStore(roles.url("jobs"))


def test_who_may_not_make_or_migrate_a_schema_is_told_who_may(roles: Roles) -> None:
    roles.follow_the_page()
    with pytest.raises(QueueStoreError, match="open it once as the owner of the schema"):
        PostgresQueueStore(roles.url("jobs"))
    PostgresQueueStore(roles.url("jobs_owner")).close()
    schema.revert(roles.url("jobs_owner"), to=schema.latest() - 1)
    with pytest.raises(QueueStoreError, match=f"has version {schema.latest() - 1} .* needs {schema.latest()}"):
        PostgresQueueStore(roles.url("jobs"))
    PostgresQueueStore(roles.url("jobs_owner")).close()
    PostgresQueueStore(roles.url("jobs")).close()
    with pytest.raises(QueueStoreError, match="INSERT ON TABLE"):
        PostgresQueueStore(roles.url("jobs_viewer"))
