"""The least that a user of a MongoDB server has to be allowed, as docs/stores.md says it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pymongo
import pytest

from localqueue.errors import QueueStoreError
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.mongodb.transaction import end_idle_transactions
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.servers import MongoDB

pytestmark = [pytest.mark.server, pytest.mark.slow]

PASSWORD = "p/w%?#@:"


class SecuredMongoDB(MongoDB):
    """A server that asks who is there."""

    def launch(self) -> subprocess.Popen[bytes]:
        key = self.folder / "key"
        if not key.exists():
            key.write_text("0123456789abcdef" * 4)
            key.chmod(0o400)
        return super().launch()

    def run(self, *command: str, **options: object) -> subprocess.Popen[bytes]:
        return super().run(*command, "--keyFile", str(self.folder / "key"), **options)


@pytest.fixture(scope="module")
def server() -> Iterator[SecuredMongoDB]:
    own = SecuredMongoDB()
    own.start()
    with pymongo.MongoClient("127.0.0.1", own.port, directConnection=True) as client:
        client.admin.command("createUser", "root", pwd="root", roles=["root"])
    yield own
    own.stop()


def user(server: SecuredMongoDB, name: str, *roles: str) -> str:
    """The address of a new user with these roles on the database `queues`."""
    root = f"mongodb://root:root@127.0.0.1:{server.port}/?replicaSet=rs0"
    with pymongo.MongoClient(root) as client:
        granted = [{"role": role, "db": "queues"} for role in roles]
        client.queues.command("createUser", name, pwd=PASSWORD, roles=granted)
    return f"mongodb://{name}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/queues?replicaSet=rs0"


def test_read_write_is_enough_for_everything_but_switching_a_journal_on_and_compacting(
    server: SecuredMongoDB, tmp_path: Path
) -> None:
    with MongoDBQueueStore(user(server, "app", "readWrite")) as store:
        with store.listen(["jobs"]) as waiter:
            store.put_one("jobs", "x", None)
            assert waiter.wait(20)
        (message,) = store.lease(LeaseRequest("jobs", 1, 30.0, "worker"))
        follow_up = NewMessage(store.mint()[0], "jobs", "y", ordering_key="k", run_id="r", dedupe_key="d")
        store.commit(Changes(settle=[Settle("jobs", message.id, "ack", 1)], enqueue=[follow_up]))
        end_idle_transactions(store.server)
        assert store.stats("jobs").ready == 1 and store.check().ok
        store.backup(str(tmp_path / "copy.sqlite3"))
        with pytest.raises(QueueStoreError, match="grant it readWrite and dbAdmin") as refused:
            store.enable_journal()
        assert PASSWORD not in str(refused.value)
        with pytest.raises(QueueStoreError, match="grant it readWrite and dbAdmin"):
            store.compact()
    with MongoDBQueueStore(user(server, "admin", "readWrite", "dbAdmin")) as store:
        store.enable_journal()
        store.put_one("jobs", "z", None)
        assert len(store.events()) == 1
        store.compact()


def test_who_may_not_write_is_told_what_to_grant(server: SecuredMongoDB) -> None:
    with pytest.raises(QueueStoreError, match="grant it readWrite"), MongoDBQueueStore(user(server, "reader", "read")):
        pass
