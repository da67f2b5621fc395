"""Events, their ids, and subscribers who are never waited for."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from localqueue.notifications import SSENotification
from localqueue.notifications.event import Arrival, Event
from localqueue.notifications.event_stream import Block, read_blocks
from localqueue.notifications.feed import Feed, Subscription


def publish(feed: Feed, *messages: tuple[str, str]) -> None:
    for queue, message_id in messages:
        feed.publish(Arrival(queue, message_id, 1.0))


def subscribe(feed: Feed, *queues: str, after: str | None = None) -> Subscription:
    return feed.subscribe(queues, lambda: None, after)


def told(events: Iterable[Event]) -> list[tuple[str | None, str | None]]:
    return [(event.queue, event.message_id) for event in events]


def test_a_subscriber_hears_of_its_queues_in_order_and_of_each_message() -> None:
    feed = Feed(history=10, buffer=10)
    jobs, everything = subscribe(feed, "jobs"), subscribe(feed)
    publish(feed, ("jobs", "1"), ("mail", "2"), ("jobs", "3"))
    assert told(jobs.take()) == [("jobs", "1"), ("jobs", "3")]
    assert told(everything.take()) == [("jobs", "1"), ("mail", "2"), ("jobs", "3")]
    assert jobs.take() == []


def test_a_subscriber_is_rung_for_once_until_it_takes() -> None:
    feed, rings = Feed(history=10, buffer=10), list[int]()
    subscription = feed.subscribe(("jobs",), lambda: rings.append(1))
    publish(feed, ("jobs", "1"), ("jobs", "2"))
    assert len(rings) == 1
    subscription.take()
    publish(feed, ("jobs", "3"))
    assert len(rings) == 2


def test_who_comes_back_gets_what_it_missed() -> None:
    feed = Feed(history=10, buffer=2)
    first = subscribe(feed, "jobs")
    publish(feed, ("jobs", "1"))
    (seen,) = first.take()
    first.close()
    publish(feed, ("jobs", "2"), ("mail", "3"), ("jobs", "4"), ("jobs", "5"), ("jobs", "6"))
    assert told(subscribe(feed, "jobs", after=seen.event_id).take()) == [("jobs", n) for n in "2456"]
    assert told(subscribe(feed, "other", after=seen.event_id).take()) == []


def test_who_has_seen_nothing_yet_comes_back_to_where_it_began() -> None:
    feed = Feed(history=10, buffer=10)
    began = subscribe(feed, "jobs").position
    publish(feed, ("jobs", "1"))
    assert told(subscribe(feed, "jobs", after=began).take()) == [("jobs", "1")]


@pytest.mark.parametrize("after", ["0123456789abcdef-1", "", "x", "-1", "{life}-99", "{life}-", "{life}-²"])
def test_an_id_that_is_not_known_is_answered_with_a_reset(after: str) -> None:
    feed = Feed(history=10, buffer=10)
    life = subscribe(feed).position.partition("-")[0]
    publish(feed, ("jobs", "1"))
    (reset,) = subscribe(feed, "jobs", after=after.format(life=life)).take()
    assert (reset.kind, reset.queue, reset.event_id) == ("reset", None, f"{life}-1")


def test_an_id_older_than_the_history_is_answered_with_a_reset_and_the_oldest_before_it_is_not() -> None:
    feed = Feed(history=3, buffer=10)
    subscription = subscribe(feed)
    publish(feed, *(("jobs", str(n)) for n in range(5)))
    ids = [event.event_id for event in subscription.take()]
    assert told(subscribe(feed, "jobs", after=ids[0]).take()) == [(None, None)]
    assert told(subscribe(feed, "jobs", after=ids[1]).take()) == [("jobs", n) for n in "234"]
    assert subscribe(feed, "jobs", after=ids[4]).take() == []


def test_a_slow_subscriber_is_told_to_look_again_at_each_queue_and_the_others_miss_nothing() -> None:
    feed = Feed(history=10, buffer=4)
    slow, quick, heard = subscribe(feed), subscribe(feed), list[Event]()
    for n in range(1000):
        publish(feed, ("jobs" if n % 2 else "mail", str(n)))
        heard += quick.take()
    assert [event.message_id for event in heard] == [str(n) for n in range(1000)]
    left = slow.take()
    assert {event.queue for event in left} == {"jobs", "mail"} and len(left) <= 4
    assert left[-1].event_id == heard[-1].event_id and None in {event.message_id for event in left}
    assert [event.event_id for event in left] == sorted(
        (event.event_id for event in left), key=lambda name: int(name.partition("-")[2])
    )
    assert feed.coalesced > 900


def test_a_slow_subscriber_of_thousands_of_queues_is_told_to_look_at_all_of_them() -> None:
    feed = Feed(history=10, buffer=100)
    slow = subscribe(feed)
    publish(feed, *((f"queue {n}", "x") for n in range(5000)))
    left = slow.take()
    assert len(left) <= 100 and left[0].kind == "reset"


def test_a_feed_that_is_closed_tells_nobody() -> None:
    feed, rings = Feed(history=10, buffer=10), list[int]()
    subscription = feed.subscribe(("jobs",), lambda: rings.append(1))
    feed.close()
    publish(feed, ("jobs", "1"))
    assert rings == [1] and not subscription.is_open and subscription.take() == []
    subscription.close()
    assert feed.subscriber_count == 0


def test_a_subscriber_whose_event_loop_is_gone_is_forgotten() -> None:
    def ring() -> None:
        raise RuntimeError("Event loop is closed")

    feed = Feed(history=10, buffer=10)
    feed.subscribe(("jobs",), ring)
    publish(feed, ("jobs", "1"))
    assert feed.subscriber_count == 0


@pytest.mark.multiprocess
def test_the_child_of_a_fork_has_ids_of_its_own_and_no_subscribers() -> None:
    feed, reading, writing = Feed(history=10, buffer=10), *os.pipe()
    subscription = subscribe(feed)
    child = os.fork()
    if child == 0:
        publish(feed, ("jobs", "1"))
        os.write(writing, f"{feed.subscriber_count} {subscribe(feed).position}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    count, position = os.read(reading, 1000).decode().split()
    os.close(reading), os.close(writing)
    assert count == "0" and position.partition("-")[0] != subscription.position.partition("-")[0]
    assert feed.subscriber_count == 1


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "10"])
def test_a_size_that_is_no_number_of_events_is_refused(wrong: object) -> None:
    for name in ("history", "buffer"):
        with pytest.raises(ValueError, match=f"{name} must be a number of events, at least 1, got"):
            SSENotification(**{name: wrong})  # type: ignore[arg-type]


def test_a_stream_is_read_as_the_standard_says() -> None:
    stream = (
        b": hello\n\nid: 1\n\nevent: available\r\ndata: a\r\ndata:b\r\nid: 2\r\n\r\n",
        b"data\n\nid: 1\0\nwhatever: x\n\ndata: \xff\n\ndata: half",
    )
    lines = [line for part in stream for line in part.splitlines(keepends=True)]
    assert list(read_blocks(lines)) == [
        Block("message", "1", ""),
        Block("available", "2", "a\nb"),
        Block("message", None, ""),
        Block("message", None, ""),
        Block("message", None, "\ufffd"),
    ]
