"""A journal is replayed against the reference model: what can not have happened is found, or is not what is there."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue.contracts.replay import IllegalEntry, Replay, replay
from localqueue.contracts.steps import put, take
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import Changes, Settle
from localqueue.stores.sqlite import MemoryQueueStore

#: What the messages b and c were put after.
AFTER = {"b": ("a",), "c": ("a", "b")}


class Journal:
    """Entries one after the other, a second each, of messages in one queue."""

    def __init__(self) -> None:
        self.entries: list[JournalEvent] = []
        self._set_back = 0.0

    def add(self, kind: str, message: str = "x", attempt: int = 0, **fields: Any) -> Journal:
        n = len(self.entries) + 1
        self.entries.append(
            JournalEvent(n, n - self._set_back, kind, fields.pop("queue", "jobs"), message, attempt, **fields)
        )
        return self

    def back(self, seconds: float) -> Journal:
        self._set_back += seconds
        return self

    def put(self, *messages: str, **options: Any) -> Journal:
        for message in messages:
            self.add("enqueued", message, payload=message, options=options or None)
        return self

    def lease(self, message: str = "x", attempt: int = 1, **fields: Any) -> Journal:
        return self.add("leased", message, attempt, **fields)

    def ack(self, message: str = "x", attempt: int = 1, **fields: Any) -> Journal:
        return self.add("acked", message, attempt, **fields)

    def told(self) -> Replay:
        return replay(self.entries, AFTER)


def begun() -> Journal:
    return Journal().put("x").lease("x")


def line() -> Journal:
    return Journal().put("x", "y", "z", ordering_key="k")


@pytest.mark.parametrize(
    ("journal", "left"),
    [
        (begun().ack(), {}),
        (begun().add("released", attempt=1).lease(attempt=2).add("renewed", attempt=2).ack(attempt=2), {}),
        (begun().add("lease_expired", attempt=1).add("dead_lettered", attempt=1), {"x": "dead"}),
        (begun().add("dead_lettered", attempt=1).add("requeued", attempt=1).lease(attempt=2), {"x": "inflight"}),
        (Journal().put("x").add("cancelled").add("pruned"), {}),
        (Journal().put("x", "y").add("dropped").add("purged", "y"), {}),
        (Journal().put("x", ttl=1.0).add("expired"), {"x": "expired"}),
        (line().lease("x").ack("x").lease("y"), {"y": "inflight", "z": "blocked"}),
        (line().add("cancelled").lease("y"), {"x": "cancelled", "y": "inflight", "z": "blocked"}),
        (Journal().put("a", "b", "c").lease("a").ack("a").lease("b"), {"b": "inflight", "c": "waiting"}),
        (Journal().put("x", dedupe_key="k").lease().ack().put("y", dedupe_key="k"), {"y": "ready"}),
        (
            Journal().put("x", dedupe_key="k", ttl=0.5).put("y", dedupe_key="k").add("expired"),
            {"x": "expired", "y": "ready"},
        ),
        (Journal().put("x", delay=0.9).put("y").back(9.0).lease(), {"x": "inflight", "y": "ready"}),
    ],
    ids=lambda value: None,
)
def test_what_can_have_happened_is_followed(journal: Journal, left: dict[str, str]) -> None:
    assert {one.id: one.state for one in journal.told().messages.values()} == left


@pytest.mark.parametrize(
    ("journal", "why"),
    [
        (Journal().lease(), "no such message"),
        (Journal().put("x", "x"), "it was put before"),
        (begun().ack().lease(attempt=2), "it was acked"),
        (begun().ack().put("x"), "it was put before"),
        (begun().lease(attempt=2), "it is inflight"),
        (begun().add("dead_lettered", attempt=1).lease(attempt=2), "it is dead"),
        (Journal().put("x").lease(attempt=2), "attempt 2, not 1"),
        (begun().add("lease_expired", attempt=1).lease(attempt=2).ack(attempt=1), "attempt 1, not 2"),
        (begun().add("lease_expired", attempt=1).add("renewed", attempt=1), "it is ready"),
        (Journal().put("x").lease(worker="ann").ack(worker="bob"), "by 'bob', leased by 'ann'"),
        (Journal().put("x").add("lease_expired"), "it is ready"),
        (begun().add("dropped", attempt=1), "it is inflight"),
        (Journal().put("x").add("pruned"), "it is ready"),
        (Journal().put("x").add("requeued"), "it is ready"),
        (Journal().put("x").lease(queue="others"), "it is in 'jobs'"),
        (Journal().put("x").add("expired"), "its life is not over"),
        (Journal().put("x", ttl=60.0).add("expired"), "its life is not over"),
        (Journal().put("x", ttl=0.5).lease(), "its life ended at 1.5"),
        (Journal().put("x", delay=60.0).lease(), "its delay is not over"),
        (line().lease("x").lease("y"), "it is blocked behind x, which is inflight"),
        (line().lease("y"), "it is blocked behind x, which is ready"),
        (line().lease("x").ack("x").lease("z"), "it is blocked behind y, which is ready"),
        (Journal().put("a", "b").lease("b"), "it is waiting for a"),
        (Journal().put("a", "b").add("dead_lettered", "a").lease("b"), "it is waiting for a"),
        (Journal().put("x", "y", dedupe_key="k"), "x holds its dedupe key 'k'"),
        (Journal().put("x", "y", dedupe_key="k", ttl=60.0), "x holds its dedupe key 'k'"),
        (Journal().put("x", dedupe_key="k").add("cancelled").put("y", dedupe_key="k").add("requeued"), "y holds"),
    ],
    ids=lambda value: None,
)
def test_what_can_not_have_happened_is_found(journal: Journal, why: str) -> None:
    with pytest.raises(IllegalEntry, match=why) as error:
        journal.told()
    assert error.value.entry == journal.entries[-1]


def test_numbers_ascend() -> None:
    entries = Journal().put("x", "y").entries
    with pytest.raises(IllegalEntry, match="the one before it has the number 2"):
        replay(entries[::-1])


def test_what_the_store_holds_is_compared_with_what_its_journal_tells() -> None:
    with MemoryQueueStore() as store:
        store.enable_journal()
        first, second = put(store), put(store)
        take(store)
        before = store.events()
        assert replay(before).differences(store) == []

        store.disable_journal()
        store.commit(Changes(settle=[Settle("jobs", first, "ack")]))
        (gone, count) = replay(before).differences(store)
        assert gone == f"{first} is not there; it is inflight" and count == "'jobs' counts 1 messages, not 2"

        store.commit(Changes(settle=[Settle("jobs", second, "cancel")]))
        (_, changed, _) = replay(before).differences(store)
        assert second in changed and "state='cancelled'" in changed and "state='ready'" in changed

        assert "up to 2 read" in replay(before[:2]).differences(store)[0]
        third = put(store)
        assert f"{third} is there; it was never put" in replay(before).differences(store)
