"""Fan-out: one commit into many queues, all or none, and the subscriptions it goes by."""

from __future__ import annotations

import pytest

from localqueue.contracts.steps import Background, ack, assert_sound, counts, dead_letter, new, put, stored, take
from localqueue.errors import QueueFull, SubscriptionsChanged
from localqueue.stores.port import Changes, Limit, QueueStore, Subscriptions

QUEUES = [f"topic.{n}" for n in range(10)]


class FanoutContract:
    def test_a_commit_into_ten_queues_stores_in_all(self, store: QueueStore) -> None:
        done = store.commit(Changes(enqueue=[new(store, queue, "event") for queue in QUEUES]))
        assert [one.outcome for one in done.enqueued] == ["stored"] * 10
        assert [counts(store, queue) for queue in QUEUES] == [{"ready": 1}] * 10
        assert store.queues() == QUEUES

    @pytest.mark.parametrize("full", [0, 5, 9])
    def test_a_commit_into_ten_queues_of_which_one_is_full_stores_in_none(self, store: QueueStore, full: int) -> None:
        put(store, QUEUES[full])
        with pytest.raises(QueueFull) as caught:
            store.commit(
                Changes(enqueue=[new(store, queue) for queue in QUEUES], limits={queue: Limit(1) for queue in QUEUES})
            )
        assert caught.value.queue == QUEUES[full]
        assert [store.qsize(queue) for queue in QUEUES] == [int(n == full) for n in range(10)]
        assert_sound(store, QUEUES)

    def test_each_copy_has_its_own_lease_and_fate(self, store: QueueStore) -> None:
        store.commit(Changes(enqueue=[new(store, queue, "event", dedupe_key="d") for queue in QUEUES[:3]]))
        assert ack(store, take(store, QUEUES[0]))
        assert dead_letter(store, take(store, QUEUES[1]))
        assert [counts(store, queue) for queue in QUEUES[:3]] == [{}, {"dead": 1}, {"ready": 1}]
        again = store.commit(Changes(enqueue=[new(store, queue, dedupe_key="d") for queue in QUEUES[:3]]))
        assert [one.outcome for one in again.enqueued] == ["stored", "stored", "duplicate"]

    def test_subscribers_are_kept_in_the_order_they_came(self, store: QueueStore) -> None:
        assert store.subscriptions("topic") == Subscriptions(0, ())
        assert store.subscribe("topic", "zeta")
        assert store.subscribe("topic", "alpha")
        assert not store.subscribe("topic", "zeta")
        assert store.subscriptions("topic") == Subscriptions(2, ("zeta", "alpha"))
        assert store.unsubscribe("topic", "zeta")
        assert not store.unsubscribe("topic", "zeta")
        assert store.subscribe("topic", "zeta")
        assert store.subscriptions("topic") == Subscriptions(4, ("alpha", "zeta"))
        assert store.subscriptions("other") == Subscriptions(0, ())

    def test_publishing_by_an_old_list_of_subscribers_is_refused(self, store: QueueStore) -> None:
        store.subscribe("topic", "a")
        known = store.subscriptions("topic")
        store.subscribe("topic", "b")
        with pytest.raises(SubscriptionsChanged):
            store.commit(Changes(enqueue=[new(store, "topic.a")], topics={"topic": known.version}))
        assert store.scan("topic.a") == []
        now = store.subscriptions("topic")
        store.commit(
            Changes(enqueue=[new(store, f"topic.{name}") for name in now.subscribers], topics={"topic": now.version})
        )
        assert counts(store, "topic.a") == counts(store, "topic.b") == {"ready": 1}

    def test_a_topic_that_nobody_subscribed_to_is_in_version_zero(self, store: QueueStore) -> None:
        store.commit(Changes(enqueue=[new(store)], topics={"topic": 0}))
        with pytest.raises(SubscriptionsChanged):
            store.commit(Changes(enqueue=[new(store)], topics={"topic": 1}))
        assert counts(store) == {"ready": 1}

    def test_purging_a_topic_keeps_its_subscribers(self, store: QueueStore) -> None:
        store.subscribe("topic", "a")
        put(store, "topic")
        store.purge("topic")
        assert store.subscriptions("topic") == Subscriptions(1, ("a",))

    def test_no_publish_misses_a_subscriber_that_came_in_between(self, live: QueueStore) -> None:
        published: list[tuple[int, list[str]]] = []

        def publish() -> None:
            for _ in range(40):
                while True:
                    known = live.subscriptions("topic")
                    batch = [new(live, f"topic.{name}") for name in known.subscribers]
                    try:
                        done = live.commit(Changes(enqueue=batch, topics={"topic": known.version})).enqueued
                    except SubscriptionsChanged:
                        continue
                    given = zip(done, batch, strict=True)
                    published.append((known.version, [one.id or message.id for one, message in given]))
                    break

        def subscribe() -> None:
            for n in range(10):
                live.subscribe("topic", str(n))

        threads = Background()
        threads.start(publish)
        threads.start(publish)
        threads.start(subscribe)
        threads.join()
        for version, ids in published:
            assert len(ids) == version
            for n, message_id in enumerate(ids):
                assert stored(live, message_id, f"topic.{n}").state == "ready"
