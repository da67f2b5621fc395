"""The durable claims of a consumer, on every store and without Spark: what is left when a driver dies at any point."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreMissingError
from localqueue.spark.columns import MESSAGES, RAW, arrow_schema, spark_schema
from localqueue.spark.options import parse
from localqueue.spark.source.rows import message_batch
from localqueue.spark.streams import claim_lease
from localqueue.spark.streams import claimant as claimant_module
from localqueue.spark.streams import claims as claims_module
from localqueue.spark.streams.claim_blob import chunked, decode, encode, message_rows, without
from localqueue.spark.streams.claimant import Claimant
from localqueue.spark.streams.claims import CLAIMS, Claims, ClaimsLost, read_chunk
from localqueue.spark.streams.consumer_record import CONSUMERS, VERDICTS, Consumer, ConsumerTakenOver, OpenClaim
from localqueue.spark.streams.keeper import Keeper
from localqueue.spark.streams.verdict import condemn
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, QueueStore, Settle, StoredMessage
from tests.stores import SHARED, Place, new_place

Driver = Callable[..., Claims]


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.open() as store:
        yield store


@pytest.fixture
def driver(store: QueueStore) -> Driver:
    """A new driver of the consumer. One that is not used any more has died."""
    return lambda consumer="etl", timeout=60.0, **more: Claims(store, "jobs", consumer, timeout=timeout, **more)


def put(store: QueueStore, count: int, first: int = 0) -> list[str]:
    texts = [json.dumps({"n": n}) for n in range(first, first + count)]
    return list(store.put_batch("jobs", texts, None)[0])


def read(store: QueueStore, claims: Claims, start: int, end: int) -> list[StoredMessage]:
    chunks = [(read_chunk(store, key), condemned) for key, condemned in claims.chunks(start, end)]
    return [one for chunk, condemned in chunks if chunk for one in decode(without(chunk, condemned), "jobs")]


def numbers(messages: list[StoredMessage]) -> list[int]:
    return [json.loads(message.payload)["n"] for message in messages]


def step(claims: Claims, start: int, limit: int = 100) -> int:
    """What `latestOffset` does when there is something to claim."""
    claims.settle(start)
    if claims.claimed == claims.settled:
        claims.claim(limit)
    return claims.claimed


def test_claims_are_numbered_read_and_settled_in_order(store: Any, driver: Driver) -> None:
    put(store, 25)
    claims = driver()
    seen: list[int] = []
    start = claims.settled
    while (end := step(claims, start, 10)) > start:
        seen += numbers(read(store, claims, start, end))
        start = end
    assert (start, claims.settled, seen) == (3, 3, list(range(25)))
    assert store.stats("jobs").total == 0


def test_a_message_is_read_as_it_was_claimed(store: Any, driver: Driver) -> None:
    store.commit(
        Changes(
            enqueue=[
                NewMessage(store.mint()[0], "jobs", b"\x00\xff", "other", priority=3, headers='{"trace": "a"}'),
                NewMessage(store.mint()[0], "jobs", '{"n": "é"}', ordering_key="k", dedupe_key="d", run_id="r"),
            ]
        )
    )
    (failed,) = store.lease(LeaseRequest("jobs", 1, 30.0, "worker"))
    error = {"type": "ValueError", "module": "builtins", "message": "no"}
    store.commit(Changes(settle=[Settle("jobs", failed.id, "release", failed.attempts, error=error)]))
    claims = driver()
    claims.claim(10)
    found = read(store, claims, 0, 1)
    held = {one.id: one for one in store.scan("jobs")}
    assert [one._replace(history=()) for one in found] == [held[one.id]._replace(history=()) for one in found]
    assert [one.leased_by for one in found] == ["spark:etl"] * 2


def test_a_driver_that_dies_before_its_claim_leaves_nothing_that_is_not_given_back(store: Any, driver: Driver) -> None:
    put(store, 5)
    claims = driver()
    assert claims.settled == 0
    store.lease(LeaseRequest("jobs", 3, 60.0, "spark:etl"))  # and dies
    (other,) = store.lease(LeaseRequest("jobs", 1, 60.0, "spark:another"))
    after = driver()
    assert after.settled == 0
    assert step(after, 0) == 1
    found = read(store, after, 0, 1)
    assert numbers(found) == [0, 1, 2, 4]
    assert other.id not in {one.id for one in found}
    assert {one.attempts - one.forgiven for one in found} == {1}


def test_a_driver_that_dies_after_its_claim_leaves_it_to_the_next_one(store: Any, driver: Driver) -> None:
    put(store, 5)
    assert step(driver(), 0, 3) == 1  # and dies before Spark wrote the offset down
    after = driver()
    assert after.settled == 0
    assert step(after, 0, 100) == 1
    assert numbers(read(store, after, 0, 1)) == [0, 1, 2]
    assert step(after, 1) == 2
    assert numbers(read(store, after, 1, 2)) == [3, 4]


def test_a_batch_that_was_committed_before_the_driver_died_is_settled_by_the_next_one(
    store: Any, driver: Driver
) -> None:
    put(store, 5)
    assert step(driver(), 0, 3) == 1
    after = driver()
    assert step(after, 1) == 2
    assert (after.settled, store.stats("jobs").total) == (1, 2)


def test_a_batch_is_read_the_same_again_when_the_log_of_its_commit_is_lost(store: Any, driver: Driver) -> None:
    put(store, 7)
    claims = driver()
    assert step(claims, 0, 3) == 1
    first = read(store, claims, 0, 1)
    assert step(claims, 1, 3) == 2  # acked claim 1
    again = driver()
    assert read(store, again, 0, 1) == first
    assert step(again, 1) == 2
    second = read(store, again, 1, 2)
    assert step(again, 2) == 3
    assert read(store, again, 1, 2) == second
    kept = {record.key.split(":")[2] for record in store.records(CLAIMS)}
    assert kept == {f"{2:012d}", f"{3:012d}"}


def test_the_older_of_two_drivers_fails_at_its_next_step_and_holds_nothing_back(store: Any, driver: Driver) -> None:
    put(store, 6)
    old, new = driver(), driver()
    assert step(old, 0, 3) == 1
    assert new.claimed == 1
    with pytest.raises(ConsumerTakenOver, match="consumer 'etl' of queue 'jobs' was taken over by another query"):
        old.settle(1)
    with pytest.raises(ConsumerTakenOver):
        old.claim(3)
    with pytest.raises(ConsumerTakenOver):
        old.chunks(0, 1)
    assert store.stats("jobs").ready == 3
    assert step(new, 1) == 2
    assert numbers(read(store, new, 1, 2)) == [3, 4, 5]


def test_a_driver_that_is_overtaken_between_lease_and_claim_makes_none_and_keeps_nothing(
    store: Any, driver: Driver
) -> None:
    put(store, 4)
    old = driver()
    assert old.settled == 0
    put(store, 1, first=4)
    prepared = old.prepare(10)
    new = driver()
    assert step(new, 0) == 1  # with what the old one had leased, which is debris to it
    with pytest.raises(ConsumerTakenOver):
        old.write(prepared)
    assert numbers(read(store, new, 0, 1)) == [0, 1, 2, 3, 4]
    assert step(new, 1) == 1
    put(store, 2)
    late = driver()
    leased = late.prepare(10)
    assert driver("etl").claimed == 1
    store.lease(LeaseRequest("jobs", 9, 60.0, "worker"))
    with pytest.raises(ConsumerTakenOver):
        late.write(leased)
    assert {one.leased_by for one in store.scan("jobs")} == {"worker"}


def test_consumers_of_other_names_and_queues_do_not_meet(store: Any, driver: Driver) -> None:
    put(store, 4)
    one, two = driver("a"), driver("b")
    three = Claims(store, "jobs:a", "x", timeout=60.0)
    assert (step(one, 0, 2), step(two, 0, 2), step(three, 0)) == (1, 1, 0)
    assert numbers(read(store, one, 0, 1) + read(store, two, 0, 1)) == [0, 1, 2, 3]
    step(one, 1)
    step(two, 1)
    assert len(store.records(CONSUMERS)) == 3


def test_messages_that_others_have_by_now_are_left_out_of_a_claim_that_is_taken_over(
    store: Any, driver: Driver
) -> None:
    ids = put(store, 4)
    assert step(driver(chunk_rows=lambda size: 2), 0) == 1
    lost = {ids[1], ids[2]}
    store.commit(Changes(settle=[Settle("jobs", one, "release") for one in lost]))  # as if the leases had run out
    assert {one.id for one in store.lease(LeaseRequest("jobs", 2, 60.0, "worker"))} == lost
    after = driver()
    assert numbers(read(store, after, 0, 1)) == [0, 3]
    assert step(after, 1) == 1
    assert {one.id for one in store.scan("jobs")} == lost


def test_a_lease_that_was_lost_is_left_to_whoever_has_it_when_a_claim_is_settled(
    store: Any, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    ids = put(store, 3)
    claims = driver()
    step(claims, 0)
    store.commit(Changes(settle=[Settle("jobs", ids[0], "release")]))
    store.lease(LeaseRequest("jobs", 1, 60.0, "worker"))
    claims.settle(1)
    assert "1 of 3 leases of claim 1 were lost" in caplog.text
    assert [(one.id, one.leased_by) for one in store.scan("jobs")] == [(ids[0], "worker")]


def test_taking_over_renews_the_leases_of_the_open_claim(store: Any, driver: Driver) -> None:
    put(store, 3)
    step(driver(timeout=30.0), 0)
    before = min(one.leased_until for one in store.scan("jobs"))
    assert driver(timeout=600.0).claimed == 1
    assert min(one.leased_until for one in store.scan("jobs")) > before + 500


def test_a_checkpoint_behind_or_beyond_the_claims_is_refused_unless_loss_is_allowed(
    store: Any, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, 6)
    claims = driver()
    for start in range(3):
        step(claims, start, 2)
    with pytest.raises(ClaimsLost, match="the checkpoint is at claim 1 and claim 2 is settled"):
        driver().settle(1)
    with pytest.raises(ClaimsLost, match="claim 1 is wanted and can be read no more"):
        driver().chunks(0, 3)
    with pytest.raises(ClaimsLost, match=r"at claim 9 and the last one there is is 3.*failOnDataLoss"):
        driver().settle(9)

    behind = driver(fail_on_data_loss=False)
    assert step(behind, 0) == 3
    assert numbers(read(store, behind, 0, 3)) == [4, 5]
    beyond = driver(fail_on_data_loss=False)
    assert step(beyond, 9) == 10  # what was open is delivered again, under the numbers of the checkpoint
    assert numbers(read(store, beyond, 9, 10)) == [4, 5]
    assert "failOnDataLoss" in caplog.text


def test_payloads_that_do_not_fit_become_dead_letters_and_no_part_of_the_claim(store: Any, driver: Driver) -> None:
    ids = put(store, 4)

    claims = driver(misfits=odd)
    assert claims.claim(10) == 4
    assert numbers(read(store, claims, 0, 1)) == [0, 2]
    claims.settle(1)
    dead = store.scan("jobs", state="dead")
    assert [one.id for one in dead] == [ids[1], ids[3]]
    assert dead[0].last_error == {
        "type": "CorruptRow",
        "module": "localqueue.spark",
        "message": "it does not fit the schema: n is odd",
    }
    put(store, 1, first=7)
    assert (claims.claim(10), claims.claimed) == (1, 1)  # a claim of nothing is none


def odd(messages: Any) -> dict[str, str]:
    return {one.id: "n is odd" for one in messages if json.loads(one.payload)["n"] % 2}


def test_payloads_of_an_open_claim_that_do_not_fit_a_later_schema_are_dead_letters_whoever_settles_it(
    store: Any, driver: Driver
) -> None:
    ids = put(store, 4)
    assert step(driver(chunk_rows=lambda size: 2), 0) == 1
    tightened = driver(misfits=odd)
    assert numbers(read(store, tightened, 0, 1)) == [0, 2]
    assert store.stats("jobs").dead == 0
    third = driver(misfits=lambda messages: {})
    assert numbers(read(store, third, 0, 1)) == [0, 2]  # a verdict stands, since a sink may have seen what it left
    assert step(driver(), 1) == 1
    assert [one.id for one in store.scan("jobs", state="dead")] == [ids[1], ids[3]]
    assert store.stats("jobs").total == 2
    assert numbers(read(store, driver(misfits=odd), 0, 1)) == [0, 2]


def test_a_job_condemns_messages_of_open_claims_and_of_no_others(store: Any, driver: Driver) -> None:
    ids = put(store, 6)
    claims = driver(chunk_rows=lambda size: 2)
    assert step(claims, 0, 4) == 1
    error = {"type": "Expectation", "module": "shop", "message": "amount < 0"}
    assert condemn(store, "jobs", "etl", dict.fromkeys((ids[0], ids[3], ids[4]), error)) == {ids[4]}
    assert condemn(store, "jobs", "nobody", {ids[1]: error}) == {ids[1]}
    assert condemn(store, "jobs", "etl", {ids[0]: {**error, "message": "again"}}) == set()
    assert numbers(read(store, claims, 0, 1)) == [1, 2]
    assert step(claims, 1, 4) == 2
    assert condemn(store, "jobs", "etl", {ids[0]: error, ids[1]: error, ids[5]: error}) == {ids[1]}
    dead = store.scan("jobs", state="dead")
    assert [(one.id, one.last_error) for one in dead] == [(ids[0], error), (ids[3], error)]
    claims.settle(2)
    assert [one.id for one in store.scan("jobs", state="dead")] == [ids[0], ids[3], ids[5]]
    assert store.stats("jobs").total == 3
    assert {record.key.split(":")[2] for record in store.records(VERDICTS)} == {f"{2:012d}"}


def test_a_verdict_comes_before_its_claim_is_settled_or_is_refused(
    store: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = put(store, 3)
    claims = driver()
    step(claims, 0)
    found, late = claims_module.read_verdicts, iter(ids[:2])
    error = {"type": "Late", "module": "", "message": ""}

    def read_and_then_condemn(store: Any, keys: Any) -> Any:
        verdicts = found(store, keys)
        for one in late:
            assert condemn(store, "jobs", "etl", {one: error}) == set()
            break
        return verdicts

    monkeypatch.setattr(claims_module, "read_verdicts", read_and_then_condemn)
    claims.settle(1)
    assert [one.id for one in store.scan("jobs")] == ids[:2]
    assert store.stats("jobs").dead == 2
    assert condemn(store, "jobs", "etl", {ids[2]: error}) == {ids[2]}


def test_each_run_of_a_claim_is_an_attempt_and_the_last_one_ends_in_dead_letters(store: Any, driver: Driver) -> None:
    put(store, 3)
    (before,) = store.lease(LeaseRequest("jobs", 1, 30.0, "worker"))
    store.commit(Changes(settle=[Settle("jobs", before.id, "release", before.attempts)]))
    tries = []
    for _ in range(4):  # each of them fails and is begun again
        claims = driver(max_attempts=3)
        claims.settle(0)
        if claims.claimed == 0:
            claims.claim(100)
        tries.append(len(read(store, claims, 0, 1)))
        tries.append(len(read(store, claims, 0, 1)))  # a look more is no run more
    assert tries == [3, 3, 3, 3, 2, 2, 0, 0]
    assert step(claims, 1) == 1
    errors = {one.id: one.last_error for one in store.scan("jobs", state="dead")}
    assert len(errors) == 3
    assert errors[before.id]["type"] == "AttemptsExhausted"
    told = "delivered 3 times without an ack; after the last delivery its batch was not committed"
    assert {one["message"] for one in errors.values()} == {told}
    put(store, 2)
    assert step(claims, 1) == 2
    assert [len(read(store, driver(), 1, 2)) for _ in range(5)] == [2] * 5  # without the option there is no end to it


def test_a_claim_is_as_heavy_as_its_limit_allows_and_in_chunks_that_every_store_takes(
    store: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_lease, "CLAIM_BYTES", 50_000)
    monkeypatch.setattr(claim_lease, "FIRST_PAGE", 10)
    store.put_batch("jobs", ["x" * 1_000 for _ in range(200)], None)
    claims = driver(chunk_rows=lambda size: 20)
    assert claims.claim(None) == 50
    assert len(claims.chunks(0, 1)) == 3


def test_a_keeper_renews_leases_while_a_batch_runs(store: Any, driver: Driver) -> None:
    put(store, 3)
    claims = driver(timeout=2.0)
    step(claims, 0)
    before = {one.leased_until for one in store.scan("jobs")}
    keeper = Keeper(store, claims.leases, 2.0, claims.live)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and before & {one.leased_until for one in store.scan("jobs")}:
            time.sleep(0.02)
    finally:
        keeper.close()
    assert not before & {one.leased_until for one in store.scan("jobs")}
    assert (
        store.renew([Lease("jobs", one.id, one.attempts) for one in store.scan("jobs")], timeout=9.0).count(None) == 0
    )


def put_keyed(store: QueueStore, count: int, keys: str = "ab", **more: Any) -> list[str]:
    """Messages whose keys take turns, numbered within each key."""
    new = [
        NewMessage(one, "jobs", json.dumps({"n": n // len(keys)}), ordering_key=keys[n % len(keys)], **more)
        for n, one in enumerate(store.mint(count))
    ]
    done = store.commit(Changes(enqueue=new)).enqueued
    return [made.id or given.id for made, given in zip(done, new, strict=True)]


def by_key(messages: list[StoredMessage]) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = {}
    for one in messages:
        found.setdefault(one.ordering_key, []).extend(numbers([one]))
    return found


def worker_takes(store: QueueStore, count: int = 100) -> dict[str | None, list[int]]:
    """What a plain worker gets and acks, one lease after another."""
    taken: list[StoredMessage] = []
    while found := store.lease(LeaseRequest("jobs", count, 60.0, "worker")):
        taken += found
        store.commit(Changes(settle=[Settle("jobs", one.id, "ack", one.attempts) for one in found]))
    return by_key(taken)


def test_a_claim_takes_the_run_of_a_key_in_order_and_nobody_else_gets_any_of_it(store: Any, driver: Driver) -> None:
    put_keyed(store, 20)
    put(store, 2)
    claims = driver(chunk_rows=lambda size: 3)
    assert claims.claim(100) == 22
    put_keyed(store, 2)  # later ones stand behind
    assert worker_takes(store) == {}
    found = read(store, claims, 0, 1)
    assert by_key(found) == {"a": list(range(10)), "b": list(range(10)), None: [0, 1]}
    assert {(one.leased_by, one.attempts) for one in found} == {("spark:etl", 1)}
    assert len(claims.chunks(0, 1)) == 3  # a run is not cut
    claims.settle(1)
    assert worker_takes(store) == {"a": [0], "b": [0]}
    assert store.stats("jobs").total == 0


def test_runs_that_are_longer_than_a_claim_are_drained_in_order(store: Any, driver: Driver) -> None:
    put_keyed(store, 20)
    claims = driver()
    taken: list[StoredMessage] = []
    start = 0
    while (end := step(claims, start, 6)) > start:
        taken += read(store, claims, start, end)
        start = end
    assert (by_key(taken), start) == ({"a": list(range(10)), "b": list(range(10))}, 4)
    assert store.stats("jobs").total == 0
    assert store.check().ok


def test_a_run_that_is_given_back_is_delivered_in_order_again(store: Any, driver: Driver) -> None:
    put_keyed(store, 10)
    claims = driver()
    claims.give_back(claims.prepare(8))
    assert worker_takes(store) == {"a": list(range(5)), "b": list(range(5))}
    put_keyed(store, 10)
    driver().prepare(8)  # and dies
    assert driver().settled == 0
    assert worker_takes(store) == {"a": list(range(5)), "b": list(range(5))}


def lose(store: QueueStore, message_id: str) -> StoredMessage:
    """Have a worker take the message of a claim, as if its lease had run out."""
    store.commit(Changes(settle=[Settle("jobs", message_id, "release")]))
    (taken,) = store.lease(LeaseRequest("jobs", 1, 60.0, "worker"))
    assert taken.id == message_id
    return taken


def test_who_loses_the_head_of_a_run_has_lost_the_run(
    store: Any, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    ids = put_keyed(store, 6)
    claims = driver()
    step(claims, 0)
    head = lose(store, ids[0])
    assert step(claims, 1) == 1
    assert "3 of 6 leases of claim 1 were lost" in caplog.text
    store.commit(Changes(settle=[Settle("jobs", head.id, "ack", head.attempts)]))
    assert worker_takes(store) == {"a": [1, 2]}

    ids = put_keyed(store, 6)
    assert step(claims, 1) == 2
    head = lose(store, ids[1])
    later = driver()
    assert by_key(read(store, later, 1, 2)) == {"a": [0, 1, 2]}
    assert step(later, 2) == 2
    store.commit(Changes(settle=[Settle("jobs", head.id, "ack", head.attempts)]))
    assert worker_takes(store) == {"b": [1, 2]}
    assert store.check().ok


def test_of_a_run_some_may_be_condemned_and_some_removed_and_the_rest_goes_on(store: Any, driver: Driver) -> None:
    ids = put_keyed(store, 10)
    claims = driver()
    step(claims, 0)
    error = {"type": "Rule", "module": "", "message": ""}
    assert condemn(store, "jobs", "etl", {ids[0]: error, ids[3]: error}) == set()
    store.commit(Changes(settle=[Settle("jobs", ids[4], "cancel")]))
    assert store.prune("jobs", state="cancelled", older_than=0.0) == 1
    put_keyed(store, 2)
    assert step(claims, 1) == 2
    assert sorted(one.id for one in store.scan("jobs", state="dead")) == sorted([ids[0], ids[3]])
    assert by_key(read(store, claims, 1, 2)) == {"a": [0], "b": [0]}
    claims.settle(2)
    assert store.stats("jobs").total == 2
    assert store.check().ok


def test_a_run_ends_before_a_message_that_is_not_available_yet(store: Any, driver: Driver) -> None:
    put_keyed(store, 2, "a")
    put_keyed(store, 1, "a", delay=3600.0)
    put_keyed(store, 1, "a")
    claims = driver()
    assert claims.claim(None) == 2
    claims.settle(1)
    assert (store.stats("jobs").delayed, store.stats("jobs").blocked) == (1, 1)


class TestClaimant:
    """The driver's side, on SQLite."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        with new_place("sqlite", tmp_path).open() as store:
            yield store

    @pytest.fixture
    def claimant(self, tmp_path: Path) -> Iterator[Claimant]:
        claimant = Claimant(self.options(tmp_path))
        yield claimant
        claimant.close()

    def options(self, folder: Path, **more: str) -> Any:
        url = f"sqlite:///{folder}/queues.sqlite"
        return parse({"url": url, "queue": "jobs", "mode": "consume", "consumer": "etl", **more})

    def test_with_available_now_it_ends_though_producers_go_on(self, store: Any, claimant: Claimant) -> None:
        put(store, 10)
        claimant.end_with_what_is_there()
        start, taken = 0, 0
        while (end := claimant.advance(start, 4)) > start:
            taken += len(read(store, claimant.claims, start, end))
            start = end
            put(store, 5)
        assert (start, taken) == (3, 10)
        assert store.stats("jobs").ready == 15

    def test_with_available_now_it_drains_the_keys(self, store: Any, claimant: Claimant) -> None:
        put_keyed(store, 20)
        assert claimant.report()["backlog"] == 20
        claimant.end_with_what_is_there()
        start, taken = 0, []
        while (end := claimant.advance(start, 6)) > start:
            taken += read(store, claimant.claims, start, end)
            start = end
        assert by_key(taken) == {"a": list(range(10)), "b": list(range(10))}
        assert store.stats("jobs").total == 0

    def test_it_goes_on_while_spark_runs_a_batch_and_settles_all_of_it(self, store: Any, claimant: Claimant) -> None:
        put(store, 10)
        assert claimant.advance(0, 3) == 1
        assert claimant._ahead is not None
        assert len(claimant._ahead.result().held) == 3
        assert claimant.advance(1, 3) == 2
        claimant._ahead.result()  # settles 1 and leases for 3
        assert (claimant.claims.settled, store.stats("jobs").total) == (1, 7)
        assert claimant.advance(2, 3) == 3
        assert claimant.advance(3, 3) == 4
        assert claimant.advance(4, 3) == 4
        assert (claimant.claims.settled, store.stats("jobs").total) == (4, 0)

    def test_a_settle_that_fails_while_more_is_leased_gives_back_what_was_leased(
        self, store: Any, claimant: Claimant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(store, 10)
        assert claimant.advance(0, 3) == 1
        assert claimant._ahead is not None
        claimant._ahead.result()
        leased, prepare = threading.Event(), claimant.claims.prepare
        monkeypatch.setattr(claimant.claims, "prepare", lambda limit: (prepare(limit), leased.set())[0])
        assert claimant.advance(1, 3) == 2
        settle = claimant.claims.settle

        def refused(upto: int) -> None:
            assert leased.wait(PATIENCE)  # it is done at the same time
            raise ConsumerTakenOver("somebody else has it")

        claimant._ahead.result()
        leased.clear()
        monkeypatch.setattr(claimant.claims, "settle", refused)
        assert claimant.advance(2, 3) == 3
        with pytest.raises(ConsumerTakenOver):
            claimant._ahead.result(PATIENCE)
        monkeypatch.setattr(claimant.claims, "settle", settle)
        assert (store.stats("jobs").ready, store.stats("jobs").inflight) == (1, 6)

    def test_what_was_leased_ahead_is_given_back_when_the_query_stops(self, store: Any, tmp_path: Path) -> None:
        put(store, 10)
        claimant = Claimant(self.options(tmp_path))
        assert claimant.advance(0, 3) == 1
        claimant.close()
        assert (store.stats("jobs").ready, store.stats("jobs").inflight) == (7, 3)

    def test_a_driver_that_dies_with_two_claims_unsettled_leaves_both_to_the_next_one(
        self, store: Any, tmp_path: Path
    ) -> None:
        put(store, 9)
        claims = Claims(store, "jobs", "etl", timeout=60.0)
        claims.claim(3)
        claims.write(claims.prepare(3))
        claims.prepare(3)  # and dies: Spark has committed 1 and perhaps begun with 2
        after = Claimant(self.options(tmp_path))
        assert numbers(read(store, after.claims, 1, 2)) == [3, 4, 5]
        assert (after.advance(1, 3), after.claims.settled) == (2, 1)
        assert after.advance(2, 100) == 3
        assert numbers(read(store, after.claims, 2, 3)) == [6, 7, 8]
        after.close()
        anew = Claims(store, "jobs", "other", timeout=60.0)
        assert (anew.settled, anew.claimed) == (0, 0)

    def test_what_an_earlier_driver_left_counts_as_there(self, store: Any, claimant: Claimant) -> None:
        put(store, 3)
        store.lease(LeaseRequest("jobs", 3, 600.0, "spark:etl"))
        claimant.end_with_what_is_there()
        assert claimant.advance(0, 100) == 1
        assert len(read(store, claimant.claims, 0, 1)) == 3

    def test_it_finds_a_message_soon_and_asks_an_empty_queue_rarely(
        self, store: Any, claimant: Claimant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int | None] = []
        claim = claimant.claims.claim
        monkeypatch.setattr(claimant.claims, "claim", lambda limit: asked.append(limit) or claim(limit))
        monkeypatch.setattr(claimant_module, "_ASK", 10 * PATIENCE)
        began = time.monotonic()
        polls = 0
        while polls < 100 or time.monotonic() < began + 0.2:
            assert claimant.advance(0, None) == 0
            polls += 1
        assert len(asked) == 1
        put(store, 1)
        deadline = time.monotonic() + PATIENCE
        while claimant.advance(0, None) == 0:
            assert time.monotonic() < deadline

    def test_it_reports_the_backlog_and_its_age(self, store: Any, claimant: Claimant) -> None:
        assert claimant.report() == {"claim": 0, "backlog": 0, "oldest_age_seconds": 0.0}
        put(store, 5)
        claimant._report_at = 0.0
        assert claimant.advance(0, 2) == 1
        assert claimant._ahead is not None
        claimant._ahead.result(PATIENCE)  # it leases two more, which are still to come
        report = claimant.report()
        assert (report["claim"], report["backlog"]) == (1, 3)
        assert report["oldest_age_seconds"] >= 0

    def test_the_backlog_it_reports_is_that_behind_the_claim_that_was_just_made(
        self, store: Any, claimant: Claimant
    ) -> None:
        put(store, 10)
        told, start = [], 0
        claimant.end_with_what_is_there()
        while (end := claimant.advance(start, 4)) > start:
            told.append(claimant.report()["backlog"])  # though more is being leased, or has been counted just now
            start = end
        assert told == [6, 2, 0]

    def test_where_there_is_no_store_none_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(QueueStoreMissingError, match="there is no store at"):
            Claimant(self.options(tmp_path / "sub"))
        assert list(tmp_path.iterdir()) == []
        with new_place("sqlite", tmp_path).open(), pytest.raises(QueueStoreMissingError, match="other"):
            Claimant(self.options(tmp_path, namespace="other"))

    @pytest.mark.parametrize(
        ("options", "size", "chunks"),
        [({}, 100, 1), ({}, 50_000, 4), ({"numPartitions": "3"}, 7, 3), ({"minPartitions": "6"}, 20_000, 6)],
    )
    def test_partitions_follow_the_options(
        self, store: Any, tmp_path: Path, options: dict[str, str], size: int, chunks: int
    ) -> None:
        claimant = Claimant(self.options(tmp_path, **options))
        rows = claimant._chunk_rows(size)
        claimant.close()
        assert -(-size // rows) == chunks


def test_the_rows_of_a_chunk_are_those_of_its_messages() -> None:
    schema = arrow_schema(spark_schema({**MESSAGES, **RAW}))
    common: dict[str, Any] = {"queue": "jobs", "state": "inflight", "codec": None, "priority": 1, "attempts": 2}
    messages = [
        StoredMessage(
            id=str(n), payload=f'{{"n": {n}}}', created_at=1.0000005 * n, available_at=1e9 + n / 3,
            leased_until=None if n else float("inf"), leased_by="spark:etl",
            last_error={"type": "E", "message": "m"} if n == 1 else None, failed_at=5.5,
            headers='{"a": "b"}' if n == 2 else None, **common,
        )
        for n in range(3)
    ]  # fmt: skip
    assert message_rows(encode(messages), "jobs", schema) == message_batch(messages, schema)
    packed = [one._replace(payload=b"\x81\xa1n\x01", codec="msgpack") for one in messages]
    mixed = [messages[0], *packed]
    assert message_rows(encode(mixed), "jobs", schema) == message_batch(mixed, schema)
    assert decode(encode(mixed), "jobs") == mixed


def test_chunks_are_cut_by_rows_and_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localqueue.spark.streams.claim_blob.CHUNK_BYTES", 10)
    sizes = [3, 3, 3, 20, 1, 1]
    messages = [StoredMessage(str(n), "q", "inflight", "x" * n, None, 0, 1, 0.0, 0.0) for n in sizes]
    assert [[len(one.payload) for one in chunk] for chunk in chunked(messages, 100)] == [[3, 3, 3], [20], [1, 1]]
    assert [len(chunk) for chunk in chunked(messages[:3], 2)] == [2, 1]
    assert list(chunked([], 5)) == []


def test_the_record_of_a_consumer_says_what_it_is() -> None:
    state = Consumer(generation=2, owner="x", settled=4, claimed=5, chunks={4: 1, 5: 2}, open={5: OpenClaim(rows=3)})
    assert Consumer.of(state.to_bytes()) == state
