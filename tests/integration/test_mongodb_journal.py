"""Switching the journal on is noticed by processes that know nothing of it, at their very next change."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from localqueue.stores.mongodb import MongoDBQueueStore, journal
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, Settle
from tests.servers import MongoDB

Stores = tuple[MongoDBQueueStore, MongoDBQueueStore]


@pytest.fixture
def stores(mongodb: MongoDB) -> Iterator[Stores]:
    """Two that share nothing but the data, as two processes would."""
    namespace = uuid4().hex
    with (
        MongoDBQueueStore(mongodb.url, namespace=namespace) as one,
        MongoDBQueueStore(mongodb.url, namespace=namespace) as other,
    ):
        yield one, other


def _types(store: MongoDBQueueStore) -> list[str]:
    return [event.type for event in store.events()]


def test_every_everyday_statement_of_another_store_is_journalled_at_once(stores: Stores) -> None:
    one, other = stores
    for n in range(6):
        other.put_one("jobs", str(n), None)
    held = [other.lease(LeaseRequest("jobs"))[0] for _ in range(3)]
    assert not other.journalled
    one.enable_journal()
    other.put_one("jobs", "new", None)
    other.journalled = False  # each statement finds out for itself
    other.commit(Changes(enqueue=[NewMessage(other.mint()[0], "jobs", "x")]))
    other.journalled = False
    assert other.ack_one("jobs", held[0].id, held[0].attempts)
    other.journalled = False
    assert other.renew([Lease("jobs", held[1].id, held[1].attempts)], timeout=30) != [None]
    other.journalled = False
    acks = [Settle("jobs", message.id, "ack", message.attempts) for message in held[1:]]
    assert other.commit(Changes(settle=acks, strict=False)).settled == [True, True]
    other.journalled = False
    assert len(other.lease(LeaseRequest("jobs"))) == 1
    other.journalled = False
    assert len(other.lease(LeaseRequest("jobs", 2))) == 2
    other.journalled = False
    assert len(other.lease(LeaseRequest("jobs", consume=True))) == 1
    assert _types(one) == [
        *("enqueued", "enqueued", "acked", "renewed", "acked", "acked"),
        *("leased", "leased", "leased", "leased", "acked"),
    ]


def test_what_was_written_under_a_journal_goes_on_without_it(stores: Stores) -> None:
    one, other = stores
    one.enable_journal()
    one.put_one("jobs", "a", None)
    one.put_one("jobs", "b", None)
    held = one.lease(LeaseRequest("jobs"))[0]
    one.disable_journal()
    entries = _types(one)
    assert other.ack_one("jobs", held.id, held.attempts)
    message = other.lease(LeaseRequest("jobs"))[0]
    assert other.ack_one("jobs", message.id, message.attempts)
    assert _types(one) == entries
    assert one.check().ok


def test_namespaces_switch_their_journals_without_minding_each_other(mongodb: MongoDB, stores: Stores) -> None:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as third:
        stores[0].enable_journal()
        third.enable_journal()
        third.disable_journal()
        third.put_one("jobs", "x", None)
        stores[1].put_one("jobs", "x", None)
        assert _types(third) == []
        assert _types(stores[0]) == ["enqueued"]


class _Killed(SystemExit):
    pass


def test_a_journal_that_somebody_died_over_while_switching_it_on_is_not_on(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores

    def die(*_: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(journal, "transact", die)
        with pytest.raises(_Killed):
            one.enable_journal()
    assert not other.journal_enabled()
    other.enable_journal()
    assert one.journal_enabled()
    message_id, _ = one.put_one("jobs", "x", None)
    assert [(entry.type, entry.message_id) for entry in other.events()] == [("enqueued", message_id)]
    other.disable_journal()
    assert not one.journal_enabled()
