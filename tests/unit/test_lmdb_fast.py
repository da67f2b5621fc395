"""The short ways of the LMDB store do what the engine does: each is run beside a twin that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts import FakeClock
from localqueue.contracts.differ import differ
from localqueue.contracts.picture import differences, picture, plain
from localqueue.contracts.steps import ack, new, put, take
from localqueue.errors import LeaseLost, RecordConflict
from localqueue.stores.engine import commit, leases
from localqueue.stores.lmdb import LMDBQueueStore, fast
from localqueue.stores.lmdb.rows import LMDBRows
from localqueue.stores.port import (
    Changes,
    Committed,
    LeaseRequest,
    Limit,
    NewMessage,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
)

pytest.importorskip("lmdb")


class LongWay(LMDBQueueStore):
    """Everything is decided by the engine."""

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        (message_id,) = self.mint()
        return message_id, self.commit(Changes(enqueue=[NewMessage(message_id, queue, payload, codec)])).enqueued[0].at

    def _put(self, rows: LMDBRows, changes: Changes) -> Committed:
        return self._engine(rows, lambda unit: commit.apply(unit, changes))

    def _step(self, rows: LMDBRows, changes: Changes) -> Committed:
        return self._engine(rows, lambda unit: commit.apply(unit, changes))

    def _lease(self, rows: LMDBRows, request: LeaseRequest, *, settle_all: bool = False) -> list[StoredMessage] | None:
        return self._engine(rows, lambda unit: leases.lease(unit, request, settle_all=settle_all))


class Twins:
    """The same store twice, in two namespaces on one clock: with the short ways, and without."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.watched = True
        self.both = [
            LMDBQueueStore(path, namespace="short", clock=self.clock),
            LongWay(path, namespace="long", clock=self.clock),
        ]
        self.labels: list[dict[Any, Any]] = [{}, {}]

    def do(self, act: Callable[[Any], Any]) -> Any:
        """What both answer, which is the same."""
        answers = [self._labelled(at, self._seen(store, act)) for at, store in enumerate(self.both)]
        assert answers[0] == answers[1]
        return answers[0]

    def _seen(self, store: Any, act: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
        with store.observe() if self.watched else nullcontext([]) as told:
            try:
                return act(store), told
            except LeaseLost:
                return "LeaseLost", told

    def _labelled(self, at: int, answer: Any) -> Any:
        labels = self.labels[at]
        for message in (message for queue in self.both[at].queues() for message in self.both[at].scan(queue)):
            labels.setdefault(message.id, f"#{len(labels)}")
        return plain(answer, labels)

    def look(self) -> None:
        shown = [
            picture(store, labels, queues=["jobs", "later"], runs=["run"], workers=["w"])
            for store, labels in zip(self.both, self.labels, strict=True)
        ]
        assert differences(*shown) == []
        assert self.both[0].check().ok


@pytest.fixture(params=["journal", "no journal"])
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twins]:
    twins = Twins(tmp_path / "queues")
    if request.param == "journal":
        twins.do(lambda store: store.enable_journal())
    yield twins
    twins.look()
    for store in twins.both:
        store.close()


Ways = dict[str, list[bool]]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """For each put, settlement and claim that tried a short way, whether it was one."""
    ways: Ways = {"put": [], "settle": [], "lease": []}

    def watch(name: str) -> None:
        way = getattr(fast, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            found = way(*arguments, **options)
            ways[name].append(found is not None)
            return found

        monkeypatch.setattr(fast, name, watched)

    for name in ways:
        watch(name)
    return ways


def held(store: Any, **options: Any) -> StoredMessage:
    return take(store, leased_by="w", **options)


@pytest.mark.parametrize("payload", ["text", b"\x00\xff", ""])
@pytest.mark.parametrize("codec", [None, "json"])
def test_a_plain_put_is_that_of_the_engine(twins: Twins, payload: Payload, codec: str | None) -> None:
    twins.do(lambda store: store.put_one("jobs", payload, codec)[1])


def put_second(options: dict[str, Any]) -> Callable[[Any], Any]:
    """Put a message that may come after the first one, or be limited."""

    def put_it(store: Any) -> Any:
        given = dict(options)
        limits = {"jobs": given.pop("limit")} if "limit" in given else {}
        if "after" in given:
            given["after"] = (store.scan("jobs")[0].id,)
        return store.commit(Changes(enqueue=[new(store, **given)], limits=limits)).enqueued

    return put_it


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dedupe_key": "e", "ordering_key": "k", "priority": -5, "headers": '{"a":1}', "codec": "json"},
        {"dedupe_key": "new", "delay": 5.0, "ttl": 60.0},
        {"ordering_key": "k", "ttl": 2.0},
        {"ordering_key": "new", "delay": 5.0},
        {"limit": Limit(2)},
        {"limit": Limit(0)},
    ],
)
def test_a_put_with_keys_and_times_is_that_of_the_engine(twins: Twins, short: Ways, options: dict[str, Any]) -> None:
    twins.do(lambda store: put(store, ordering_key="k", dedupe_key="d"))
    twins.do(put_second(options))
    assert short["put"] == [True, True]


@pytest.mark.parametrize(
    "options",
    [
        {"dedupe_key": "d"},
        {"ttl": 0.0},
        {"run_id": "run"},
        {"after": "the first"},
        {"limit": Limit(1, "drop-oldest")},
        {"limit": Limit(1, "drop-newest")},
        {"limit": Limit(5, "overflow-queue", "later"), "dedupe_key": "e"},
    ],
)
def test_a_put_about_which_more_is_to_decide_takes_the_long_way(
    twins: Twins, short: Ways, options: dict[str, Any]
) -> None:
    twins.do(lambda store: put(store, dedupe_key="d"))
    twins.do(put_second(options))
    assert short["put"] == [True, False]


def test_a_put_counts_what_is_due_as_what_it_has_become(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, ttl=5.0))
    twins.do(lambda store: put(store, delay=5.0))
    twins.clock.advance(5.0)
    twins.do(put_second({"limit": Limit(2)}))
    twins.do(put_second({"limit": Limit(2, "drop-newest")}))
    assert short["put"] == [True, True, True, False]


@pytest.mark.parametrize("options", [{}, {"dedupe_key": "d"}, {"priority": 5}, {"ttl": 60.0}, {"headers": '{"a":1}'}])
def test_a_plain_claim_and_its_ack_are_those_of_the_engine(twins: Twins, short: Ways, options: dict[str, Any]) -> None:
    twins.do(lambda store: put(store, **options))
    twins.do(lambda store: put(store, payload="behind"))
    twins.do(lambda store: ack(store, held(store)))
    assert (short["lease"], short["settle"]) == ([True], [True])


def release(store: Any, **options: Any) -> Any:
    message = held(store)
    one = Settle("jobs", message.id, "release", message.attempts, **options)
    return store.commit(Changes(settle=[one], lease=LeaseRequest("jobs", leased_by="w"))).settled


def test_a_message_that_failed_before_is_acked_with_its_history(twins: Twins, short: Ways) -> None:
    twins.watched = False
    twins.do(put)
    twins.do(lambda store: release(store, delay=1.0, error={"type": "Oops"}))
    twins.clock.advance(1.0)
    twins.do(lambda store: ack(store, held(store)))
    assert short["settle"] == [True, True]


@pytest.mark.parametrize("put_with", [{}, {"ordering_key": "k", "dedupe_key": "d", "run_id": "run", "ttl": 60.0}])
@pytest.mark.parametrize("options", [{}, {"delay": 5.0}, {"error": {"type": "Oops"}}, {"max_attempts": 3}])
def test_a_release_is_that_of_the_engine(
    twins: Twins, short: Ways, put_with: dict[str, Any], options: dict[str, Any]
) -> None:
    twins.watched = False
    twins.do(lambda store: put(store, **put_with))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: release(store, **options))
    twins.clock.advance(60.0)
    twins.do(held)
    assert short["settle"] == [True]


@pytest.mark.parametrize("put_with", [{}, {"ordering_key": "k", "ttl": 5.0}])
@pytest.mark.parametrize("options", [{"max_attempts": 1}, {"forgive": True}, {"error": {"type": "Oops"}}])
def test_a_release_that_ends_a_message_or_is_told_takes_the_long_way(
    twins: Twins, short: Ways, put_with: dict[str, Any], options: dict[str, Any]
) -> None:
    twins.watched = "error" in options
    twins.do(lambda store: put(store, **put_with))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: release(store, **options))
    assert short["settle"] == [False]


def test_the_release_of_a_message_whose_life_is_over_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.watched = False
    twins.do(lambda store: put(store, ordering_key="k", ttl=5.0))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(held)
    twins.clock.advance(5.0)

    def late(store: Any) -> Any:
        (message,) = store.scan("jobs", state="inflight")
        return store.commit(Changes(settle=[Settle("jobs", message.id, "release", message.attempts)])).settled

    twins.do(late)
    assert short["settle"] == [False]


def test_a_message_that_a_step_releases_and_acks_is_released(twins: Twins) -> None:
    twins.watched = False
    twins.do(put)

    def step(store: Any) -> Any:
        message = held(store)
        both = [Settle("jobs", message.id, action, message.attempts) for action in ("release", "ack")]
        return store.commit(Changes(settle=both, strict=False)).settled

    assert twins.do(step)[0] == [True, False]


@pytest.mark.parametrize("put_with", [{}, {"dedupe_key": "d", "priority": 5, "run_id": "run", "ttl": 60.0}])
@pytest.mark.parametrize("options", [{}, {"ordering_key": "k", "dedupe_key": "e"}, {"delay": 5.0}])
def test_a_put_that_drops_the_oldest_is_that_of_the_engine(
    twins: Twins, short: Ways, put_with: dict[str, Any], options: dict[str, Any]
) -> None:
    twins.watched = False
    twins.do(lambda store: put(store, **put_with))
    twins.do(lambda store: put(store, ordering_key="k", priority=7))
    twins.do(put_second({"limit": Limit(2, "drop-oldest"), **options}))
    assert short["put"][-1]


def test_a_put_that_drops_what_holds_a_key_or_finds_timers_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.watched = False
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(put_second({"limit": Limit(2, "drop-oldest")}))
    twins.do(lambda store: put(store, ttl=5.0))
    twins.clock.advance(5.0)
    twins.do(put_second({"limit": Limit(2, "drop-oldest")}))
    assert short["put"] == [True, True, False, True, False]


@pytest.mark.parametrize("options", [{"delay": 0.0}, {"delay": 5.0}, {"ttl": 60.0, "dedupe_key": "d", "run_id": "run"}])
def test_an_ack_has_the_next_of_its_ordering_key_follow_as_the_engine_does(
    twins: Twins, short: Ways, options: dict[str, Any]
) -> None:
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: put(store, ordering_key="k", **options))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: put(store, ordering_key="other"))
    twins.do(lambda store: ack(store, held(store)))
    twins.look()
    twins.clock.advance(5.0)
    twins.do(lambda store: [message.payload for message in store.lease(LeaseRequest("jobs", 5))])
    assert short["settle"] == [True]


def test_an_ack_whose_ordering_key_nobody_waits_for_is_that_of_the_engine(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: ack(store, held(store)))
    twins.do(lambda store: put(store, ordering_key="k"))
    assert short["settle"] == [True]


def test_an_ack_behind_which_a_life_is_over_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(lambda store: put(store, ordering_key="k", ttl=5.0))
    twins.do(lambda store: put(store, ordering_key="k"))
    twins.do(held)
    twins.clock.advance(5.0)
    twins.do(lambda store: store.ack_one("jobs", store.scan("jobs", state="inflight")[0].id, 1))
    assert short["settle"] == [False]


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize(
    "records",
    [
        [RecordWrite("kind", "new", b"v", tell=True)],
        [RecordWrite("kind", "old", b"v"), RecordWrite("kind", "old", b"w"), RecordWrite("kind", "other", b"x")],
        [RecordWrite("kind", "old", None, tell=True), RecordWrite("kind", "nobody's", None)],
        [RecordWrite("kind", "new", b"v", 0)],
    ],
)
def test_a_step_with_records_is_that_of_the_engine(
    twins: Twins, short: Ways, records: list[RecordWrite], claims: bool
) -> None:
    twins.do(lambda store: store.commit(Changes(records=[RecordWrite("kind", "old", b"u")])).settled)
    twins.do(lambda store: [put(store) for _ in range(3)] and None)

    def step(store: Any) -> Any:
        message = held(store)
        settle = [Settle("jobs", message.id, "ack", message.attempts)]
        done = store.commit(Changes(settle=settle, records=records, lease=LeaseRequest("jobs") if claims else None))
        written = [(one.key, one.value, one.updated_at, one.version in done.versions) for one in store.records("kind")]
        return done.settled, done.leased, [bool(version) for version in done.versions], written

    twins.do(step)
    assert short["settle"] == [True]


def test_a_step_whose_record_is_in_another_version_changes_nothing(twins: Twins, short: Ways) -> None:
    twins.do(put)

    def step(store: Any) -> Any:
        message = held(store)
        settle = [Settle("jobs", message.id, "ack", message.attempts)]
        with pytest.raises(RecordConflict):
            store.commit(Changes(settle=settle, records=[RecordWrite("kind", "key", b"v", 7)]))
        return store.scan("jobs"), store.records("kind")

    twins.do(step)
    assert short["settle"] == [True]


def test_an_ack_in_a_run_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, run_id="run"))
    twins.do(lambda store: ack(store, held(store)))
    assert (short["lease"], short["settle"]) == ([True], [False])


def test_an_ack_that_others_wait_for_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, "later", after=(put(store),)))
    twins.do(lambda store: ack(store, held(store)))
    assert (short["lease"], short["settle"]) == ([True], [False])


def test_a_stale_token_changes_nothing(twins: Twins) -> None:
    twins.do(put)

    def late(store: Any) -> Any:
        message = held(store)
        return store.ack_one("jobs", message.id, message.attempts + 1), store.ack_one("later", message.id, 1)

    assert twins.do(late)[0] == [False, False]


@pytest.mark.parametrize("strict", [True, False])
def test_a_step_with_a_stale_ack_is_refused_or_skips_it(twins: Twins, strict: bool) -> None:
    for payload in "abc":
        twins.do(lambda store, payload=payload: put(store, payload=payload))

    def step(store: Any) -> Any:
        first, second = held(store), held(store)
        acks = [Settle("jobs", first.id, "ack", 7), Settle("jobs", second.id, "ack", 1), Settle("jobs", "no", "ack", 1)]
        done = store.commit(Changes(settle=acks, lease=LeaseRequest("jobs", leased_by="w"), strict=strict))
        return done.settled, done.leased

    twins.do(step)


def test_a_message_that_a_step_acks_twice_is_acked_once(twins: Twins) -> None:
    twins.do(put)

    def step(store: Any) -> Any:
        one = Settle("jobs", held(store).id, "ack", 1)
        return store.commit(Changes(settle=[one, one], strict=False)).settled

    assert twins.do(step)[0] == [True, False]


def test_a_claim_after_a_timer_has_passed_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.do(lambda store: put(store, payload="delayed", delay=5.0))
    twins.do(lambda store: put(store, payload="short-lived", ttl=5.0))
    twins.do(lambda store: put(store, payload="plain"))
    twins.clock.advance(5.0)
    twins.do(held)
    assert short["lease"] == [False]


def test_a_claim_that_is_also_the_ack_takes_the_long_way(twins: Twins, short: Ways) -> None:
    twins.do(put)
    twins.do(lambda store: held(store, consume=True))
    assert short["lease"] == [False]


@pytest.mark.parametrize("worker", [None, "w"])
def test_a_claim_finds_nothing_where_it_is_paused(twins: Twins, worker: str | None) -> None:
    twins.do(put)
    twins.do(lambda store: store.pause("jobs", worker=worker))
    assert twins.do(lambda store: store.lease(LeaseRequest("jobs", leased_by="w")))[0] == []


@pytest.mark.parametrize("number", range(3))
def test_whatever_is_done_the_short_ways_and_the_engine_agree(number: int, tmp_path: Path) -> None:
    places = iter(range(1000))
    openers = {
        name: lambda kind=kind, **options: kind(tmp_path / str(next(places)), **options)
        for name, kind in (("short", LMDBQueueStore), ("long", LongWay))
    }
    found = differ(openers, seed=f"lmdb/{number}", length=60)
    assert found is None, str(found)
