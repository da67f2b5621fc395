"""Every kind of write transaction, as steps on a store.

`prepare` fills a fresh store and returns what the steps need to know. `steps` is a generator that yields after each
call that returned. Only `prepare` moves the clock, so that a second run of the steps on a copy of the store writes the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from localqueue.stores.port import Changes, Edge, Lease, LeaseRequest, Limit, NewMessage, RecordWrite, Settle
from tests.crash.picture import RECORD_KIND
from tests.crash.stores import Clock

Steps = Iterator[None]


class Scenario(NamedTuple):
    prepare: Callable[[Any, Clock], Any]
    steps: Callable[[Any, Any], Steps]


SCENARIOS: dict[str, Scenario] = {}


def scenario(prepare: Callable[[Any, Clock], Any]) -> Callable[[Callable[[Any, Any], Steps]], None]:
    def register(steps: Callable[[Any, Any], Steps]) -> None:
        SCENARIOS[steps.__name__] = Scenario(prepare, steps)

    return register


def put(store: Any, *payloads: str, queue: str = "jobs", **options: Any) -> list[str]:
    ids = store.mint(len(payloads))
    store.commit(Changes(enqueue=[NewMessage(i, queue, p, **options) for i, p in zip(ids, payloads, strict=True)]))
    return ids


def nothing(store: Any, clock: Clock) -> None:
    """An empty store."""


def five_ready(store: Any, clock: Clock) -> None:
    put(store, *"abcde")


def five_leased(store: Any, clock: Clock) -> Any:
    put(store, *"abcde")
    return store.lease(LeaseRequest("jobs", 5, 30.0, "worker"))


def settle(store: Any, action: str, *messages: Any, **options: Any) -> None:
    store.commit(Changes(settle=[Settle("jobs", m.id, action, m.attempts, **options) for m in messages]))


@scenario(five_ready)
def put_one(store: Any, given: None) -> Steps:
    for payload in ("x", "y", "z"):
        store.put_one("jobs", payload, None)
        yield


@scenario(nothing)
def put_into_a_new_queue(store: Any, given: None) -> Steps:
    store.put_one("fresh", "x", None)
    yield
    put(store, "y", queue="fresher", delay=5.0)
    yield


@scenario(five_ready)
def put_with_options(store: Any, given: None) -> Steps:
    put(store, "late", delay=60.0, priority=7, headers='{"h":1}')
    yield
    put(store, "keyed", ordering_key="k", dedupe_key="d", ttl=90.0, run_id="diamond")
    yield
    put(store, "behind", ordering_key="k", run_id="diamond")
    yield


@scenario(nothing)
def put_many(store: Any, given: None) -> Steps:
    put(store, *(f"m{n}" for n in range(200)))
    yield


@scenario(five_ready)
def put_that_drops_the_oldest(store: Any, given: None) -> Steps:
    (message_id,) = store.mint()
    limits = {"jobs": Limit(5, "drop-oldest")}
    store.commit(Changes(enqueue=[NewMessage(message_id, "jobs", "newest")], limits=limits))
    yield


@scenario(five_ready)
def lease_one(store: Any, given: None) -> Steps:
    for _ in range(2):
        store.lease(LeaseRequest("jobs"))
        yield


@scenario(five_ready)
def lease_a_batch(store: Any, given: None) -> Steps:
    store.lease(LeaseRequest("jobs", 4, 30.0, "worker"))
    yield


@scenario(five_ready)
def lease_and_consume(store: Any, given: None) -> Steps:
    store.lease(LeaseRequest("jobs", 2, consume=True))
    yield


@scenario(five_leased)
def ack_one(store: Any, given: list[Any]) -> Steps:
    for message in given[:2]:
        assert store.ack_one("jobs", message.id, message.attempts)
        yield


@scenario(five_leased)
def ack_many(store: Any, given: list[Any]) -> Steps:
    settle(store, "ack", *given)
    yield


@scenario(five_leased)
def release(store: Any, given: list[Any]) -> Steps:
    settle(store, "release", given[0])
    yield
    settle(store, "release", given[1], delay=60.0, error={"message": "boom"})
    yield
    settle(store, "release", given[2], max_attempts=1)
    yield


@scenario(five_leased)
def dead_letter(store: Any, given: list[Any]) -> Steps:
    settle(store, "dead-letter", *given[:3], error={"message": "boom"})
    yield


def five_leased_a_while_ago(store: Any, clock: Clock) -> Any:
    messages = five_leased(store, clock)
    clock.advance(10)
    return messages


@scenario(five_leased_a_while_ago)
def renew(store: Any, given: list[Any]) -> Steps:
    store.renew([Lease("jobs", m.id, m.attempts) for m in given], timeout=300.0)
    yield


def four_ended(store: Any, clock: Clock) -> list[str]:
    messages = five_leased(store, clock)
    settle(store, "dead-letter", *messages[:4])
    clock.advance(100)
    return [message.id for message in messages]


@scenario(four_ended)
def requeue(store: Any, given: list[str]) -> Steps:
    assert store.requeue("jobs", given[:1]) == 1
    yield
    assert store.requeue("jobs") == 3
    yield


@scenario(four_ended)
def prune(store: Any, given: list[str]) -> Steps:
    assert store.prune("jobs", state="dead", older_than=50.0) == 4
    yield


@scenario(four_ended)
def purge(store: Any, given: list[str]) -> Steps:
    assert store.purge("jobs") == 5
    yield


@scenario(nothing)
def fan_out_to_three_queues(store: Any, given: None) -> Steps:
    store.commit(Changes(enqueue=[NewMessage(i, q, "news") for i, q in zip(store.mint(3), "abc", strict=True)]))
    yield
    copies = [NewMessage(i, q, "more", priority=1, ttl=60.0) for i, q in zip(store.mint(3), "abc", strict=True)]
    store.commit(Changes(enqueue=copies))
    yield


@scenario(five_leased)
def ack_with_puts_and_a_record(store: Any, given: list[Any]) -> Steps:
    message, first, second, third = given[0], *store.mint(3)
    store.commit(
        Changes(
            enqueue=[
                NewMessage(first, "next", "first", run_id="diamond"),
                NewMessage(second, "next", "second", run_id="diamond"),
                NewMessage(third, "next", "last", run_id="diamond", after=(first,)),
            ],
            edges=[Edge(second, third)],
            settle=[Settle("jobs", message.id, "ack", message.attempts)],
            records=[RecordWrite(RECORD_KIND, message.id, b"done", 0)],
            lease=LeaseRequest("next", 1),
        )
    )
    yield


def diamond(store: Any, clock: Clock) -> list[Any]:
    top, left, right, bottom = store.mint(4)
    store.commit(
        Changes(
            enqueue=[
                NewMessage(top, "jobs", "top", run_id="diamond"),
                NewMessage(left, "jobs", "left", run_id="diamond", after=(top,)),
                NewMessage(right, "jobs", "right", run_id="diamond", after=(top,)),
                NewMessage(bottom, "jobs", "bottom", run_id="diamond", after=(left, right)),
            ]
        )
    )
    return []


@scenario(diamond)
def acks_that_free_dependents(store: Any, given: list[Any]) -> Steps:
    for count in (1, 2, 1):
        messages = store.lease(LeaseRequest("jobs", 5))
        assert len(messages) == count
        yield
        for message in messages:
            assert store.ack_one("jobs", message.id, message.attempts)
            yield


def one_key_in_flight(store: Any, clock: Clock) -> Any:
    for payload in ("one", "two", "three"):
        put(store, payload, ordering_key="k")
    return store.lease(LeaseRequest("jobs"))[0]


@scenario(one_key_in_flight)
def ack_that_frees_an_ordering_key(store: Any, given: Any) -> Steps:
    assert store.ack_one("jobs", given.id, given.attempts)
    yield
    (message,) = store.lease(LeaseRequest("jobs"))
    yield
    settle(store, "dead-letter", message)
    yield


def a_run_in_all_states(store: Any, clock: Clock) -> None:
    (first,) = put(store, "leased", run_id="doomed")
    store.lease(LeaseRequest("jobs"))
    put(store, "ready", run_id="doomed")
    put(store, "delayed", run_id="doomed", delay=60.0, queue="other")
    put(store, "waiting", run_id="doomed", after=(first,), queue="other")


@scenario(a_run_in_all_states)
def cancel_a_run(store: Any, given: None) -> Steps:
    assert store.cancel_run("doomed") == 4
    yield


@scenario(five_ready)
def pause_and_resume(store: Any, given: None) -> Steps:
    store.pause("jobs")
    yield
    store.resume("jobs")
    yield


@scenario(nothing)
def subscribe_and_unsubscribe(store: Any, given: None) -> Steps:
    for subscriber in ("mail", "audit"):
        assert store.subscribe("news", subscriber)
        yield
    assert store.unsubscribe("news", "mail")
    yield


@scenario(five_ready)
def heartbeat(store: Any, given: None) -> Steps:
    store.heartbeat("jobs", "worker")
    yield


def passed_timers(store: Any, clock: Clock) -> None:
    put(store, "expiring", ttl=40.0)
    put(store, "late", delay=50.0)
    put(store, "leased", "leased too", priority=5)
    store.lease(LeaseRequest("jobs", 2))
    put(store, "exhausted", priority=9)
    store.lease(LeaseRequest("jobs", 1))
    clock.advance(60)


@scenario(passed_timers)
def settling_of_passed_timers(store: Any, given: None) -> Steps:
    store.lease(LeaseRequest("jobs", 2, max_attempts=1))
    yield
