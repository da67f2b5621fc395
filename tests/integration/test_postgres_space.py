"""Compacting the tables of a PostgreSQL store: for their owner, who need not be a superuser."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from localqueue.errors import QueueStoreError
from localqueue.stores.postgres import PostgresQueueStore
from tests.servers import Postgres

pytestmark = pytest.mark.server


@pytest.fixture
def users(postgres: Postgres) -> Iterator[tuple[str, str]]:
    """The addresses of two ordinary users of a new database, of whom the first may make a schema."""
    name = f"t{secrets.token_hex(6)}"
    owner, other = f"{name}_owner", f"{name}_other"
    place = postgres.url.rpartition("@")[2].partition("/")[0]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        for user in (owner, other):
            connection.execute(f"CREATE ROLE {user} LOGIN")
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {owner}")
    yield f"postgresql://{owner}@{place}/{name}", f"postgresql://{other}@{place}/{name}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {owner}, {other}")


def test_the_owner_gets_space_back_and_another_user_is_told_who_may(users: tuple[str, str]) -> None:
    owner, other = users
    with PostgresQueueStore(owner) as store:
        store.put_batch("jobs", ["x" * 1000] * 2000, None)
        store.purge("jobs")
        before, after = store.compact()
        assert before is not None and after is not None and before - after > 1_000_000
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute("GRANT USAGE ON SCHEMA localqueue TO public")
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA localqueue TO public")
            connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA localqueue TO public")
        with PostgresQueueStore(other) as stranger:
            stranger.put_one("jobs", "x", None)
            with pytest.raises(QueueStoreError, match="let the owner of the tables do it"):
                stranger.compact()
        assert store.qsize("jobs") == 1
