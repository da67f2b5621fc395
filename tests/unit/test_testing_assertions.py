"""`assert_enqueued`: what is in a queue, and what is said of a queue that has something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import ANY

import pytest

from localqueue import PersistentQueue, PriorityOrdering
from localqueue.testing import assert_enqueued, assert_not_enqueued, memory_store


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with memory_store(), PersistentQueue[Any]("mails", ordering_policy=PriorityOrdering()) as queue:
        yield queue


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(*arguments, **options)
    return str(raised.value)


def test_a_message_with_an_equal_value_is_found_and_returned(queue: PersistentQueue[Any]) -> None:
    put = queue.put("hello")

    assert [message.id for message in assert_enqueued(queue, "hello")] == [put.id]
    assert_enqueued("mails", "hello")
    assert_not_enqueued(queue, "goodbye")


def test_without_a_value_any_message_will_do(queue: PersistentQueue[Any]) -> None:
    assert_not_enqueued(queue)
    queue.put(None)
    assert_enqueued(queue)
    assert_enqueued(queue, None)


def test_a_dict_is_matched_by_the_keys_it_has(queue: PersistentQueue[Any]) -> None:
    queue.put({"to": {"name": "Ada", "mail": "ada@example.com"}, "copies": [{"n": 1, "x": 0}, {"n": 2}]})

    assert_enqueued(queue, {"to": {"name": "Ada"}})
    assert_enqueued(queue, {"copies": [{"n": 1}, {}]})
    assert_enqueued(queue, {})
    assert_not_enqueued(queue, {"to": {"name": "Bob"}})
    assert_not_enqueued(queue, {"from": ...})
    assert_not_enqueued(queue, {"copies": [{"n": 1}]})


def test_what_compares_and_what_decides_can_stand_in_any_place(queue: PersistentQueue[Any]) -> None:
    queue.put({"total": 0.1 + 0.2, "id": 7})

    assert_enqueued(queue, {"total": pytest.approx(0.3), "id": ANY})
    assert_enqueued(queue, {"id": lambda id: id > 5})
    assert_enqueued(queue, lambda value: value["id"] == 7)
    assert_not_enqueued(queue, {"id": lambda id: id > 7})


def test_a_count_is_exact(queue: PersistentQueue[Any]) -> None:
    queue.put_many([1, 1, 2])

    assert len(assert_enqueued(queue, 1, count=2)) == 2
    assert_enqueued(queue, count=3)
    assert_enqueued(queue, 3, count=0)
    assert refusal(queue, 1, count=1).startswith("2 messages have value=1, not 1\n")


def test_options_are_matched(queue: PersistentQueue[Any]) -> None:
    queue.put(1, delay=60.1, priority=5, headers={"tenant": "a", "trace": "b"}, dedupe_key="k", run_id="r")

    assert_enqueued(queue, 1, delay=60.1, priority=5, headers={"tenant": "a"}, dedupe_key="k", run_id="r")
    assert_enqueued(queue, delay=lambda seconds: seconds > 60)
    assert_not_enqueued(queue, delay=0)
    assert_not_enqueued(queue, priority=4)
    assert_not_enqueued(queue, headers={"tenant": "b"})


def test_what_has_left_delivery_is_not_there_and_what_is_leased_is(queue: PersistentQueue[Any]) -> None:
    queue.dead_letter(queue.put("dead").id)
    queue.put("leased")
    queue.get_message()

    assert_enqueued(queue, "leased")
    assert_not_enqueued(queue, "dead")


def test_a_failure_says_what_is_there_and_in_what_it_differs(queue: PersistentQueue[Any]) -> None:
    queue.put({"to": "ada@example.com", "copies": 1}, priority=3)
    queue.put({"copies": 2}, delay=60, headers={"tenant": "a"})

    assert refusal(queue, {"to": "bob@example.com"}, priority=3) == (
        "no message has value={'to': 'bob@example.com'}, priority=3\n"
        "queue 'mails' has 2:\n"
        "  {'to': 'ada@example.com', 'copies': 1} priority=3\n"
        "    value['to'] is 'ada@example.com', not 'bob@example.com'\n"
        "  {'copies': 2} delay=60.0 headers={'tenant': 'a'}\n"
        "    value['to'] is missing\n"
        "    priority is 0, not 3"
    )


def test_a_failure_on_an_empty_queue_says_so(queue: PersistentQueue[Any]) -> None:
    assert refusal(queue) == "no message is there\nqueue 'mails' is empty"


def test_a_failure_shows_no_more_than_twenty_messages(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(25))

    assert refusal(queue, 25).endswith("\n  and 5 more")


def test_a_message_that_should_not_be_there_is_shown(queue: PersistentQueue[Any]) -> None:
    queue.put("hello")
    with pytest.raises(AssertionError, match="1 message has value='hello', not 0\nqueue 'mails' has 1:\n  'hello'"):
        assert_not_enqueued(queue, "hello")


def test_looking_makes_no_queue() -> None:
    with memory_store() as store:
        assert_not_enqueued("mails")
        assert store.queues() == []
