"""Fencing: what a token that is no longer current can do, which is nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    dead_letter,
    override,
    put,
    release,
    settle,
    stored,
    take,
)
from localqueue.stores.port import Action, Lease, QueueStore, StoredMessage

ACTIONS: tuple[Action, ...] = ("ack", "release", "dead-letter", "cancel")


def _expired_and_leased_again(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    clock.advance(30)
    assert take(store, leased_by="second").id == message.id


def _expired_and_released_by_another(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    _expired_and_leased_again(store, clock, message)
    assert release(store, stored(store, message.id))


def _released(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert release(store, message)


def _released_and_leased_again(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert release(store, message)
    take(store)


def _dead_lettered(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert dead_letter(store, message)


def _requeued_and_leased_again(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert dead_letter(store, message)
    assert store.requeue("jobs", [message.id]) == 1
    take(store)


def _cancelled(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert override(store, message.id, "cancel")


def _released_by_an_operator(store: QueueStore, clock: FakeClock, message: StoredMessage) -> None:
    assert override(store, message.id, "release")


LOSSES: tuple[Callable[[QueueStore, FakeClock, StoredMessage], None], ...] = (
    _expired_and_leased_again,
    _expired_and_released_by_another,
    _released,
    _released_and_leased_again,
    _dead_lettered,
    _requeued_and_leased_again,
    _cancelled,
    _released_by_an_operator,
)


class FencingContract:
    @pytest.mark.parametrize("action", ACTIONS)
    @pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__.strip("_"))
    def test_a_stale_token_changes_nothing(
        self,
        store: QueueStore,
        clock: FakeClock,
        action: Action,
        lose: Callable[[QueueStore, FakeClock, StoredMessage], None],
    ) -> None:
        put(store)
        message = take(store, leased_by="first")
        lose(store, clock, message)
        before = stored(store, message.id), store.stats("jobs")
        assert not settle(store, message, action, error={"message": "late"})
        assert store.renew([Lease("jobs", message.id, message.attempts)], timeout=60) == [None]
        assert (stored(store, message.id), store.stats("jobs")) == before

    @pytest.mark.parametrize("action", ACTIONS)
    def test_an_acked_message_is_never_brought_back(self, store: QueueStore, action: Action) -> None:
        put(store)
        message = take(store)
        assert ack(store, message)
        assert not settle(store, message, action)
        assert not override(store, message.id, action)
        assert store.renew([Lease("jobs", message.id, message.attempts)], timeout=60) == [None]
        assert store.requeue("jobs", [message.id]) == 0
        assert store.get("jobs", message.id) is None
        assert store.scan("jobs") == []
        assert_sound(store)

    def test_a_token_is_not_used_twice_for_one_message(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        tokens = set()
        for _ in range(3):
            message = take(store)
            assert message.attempts not in tokens
            tokens.add(message.attempts)
            dead_letter(store, message)
            store.requeue("jobs", [message.id])
            tokens.add(take(store, timeout=1).attempts)
            clock.advance(1)
        assert len(tokens) == 6

    def test_a_token_from_the_future_is_stale_too(self, store: QueueStore) -> None:
        put(store)
        message = take(store)
        assert not ack(store, message._replace(attempts=message.attempts + 1))
        assert not ack(store, message._replace(attempts=0))
        assert ack(store, message)

    def test_a_token_is_only_good_in_its_own_queue(self, store: QueueStore) -> None:
        put(store)
        put(store, "other")
        message = take(store)
        take(store, "other")
        assert not ack(store, message._replace(queue="other"))
        assert store.renew([Lease("other", message.id, message.attempts)], timeout=5) == [None]
        assert store.get("other", message.id) is None
        assert counts(store) == counts(store, "other") == {"inflight": 1}

    @pytest.mark.parametrize("message_id", ["", "x", "0" * 32, "g" * 32, "\x00", "ÿ" * 32, "1" * 10_000])
    def test_an_id_that_nobody_minted_is_simply_unknown(self, store: QueueStore, message_id: str) -> None:
        put(store)
        for action in ACTIONS:
            assert not override(store, message_id, action)
        assert store.get("jobs", message_id) is None
        assert store.renew([Lease("jobs", message_id, 1)], timeout=1) == [None]
        assert store.requeue("jobs", [message_id]) == 0
        assert store.upstream("jobs", message_id) == []
        assert counts(store) == {"ready": 1}
