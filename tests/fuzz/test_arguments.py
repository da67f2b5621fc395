"""What a queue is asked with numbers and names that nobody expects: it answers, or says which of them is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, Full
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.errors import QueueError, QueueStoreError
from localqueue.policies import PriorityOrdering
from localqueue.queue import PersistentQueue
from tests.fuzz.effort import examples
from tests.fuzz.words import things, words
from tests.stores import OPENERS, new_place

QUEUE = "jobs"

TEXTS: dict[str, Any] = {
    "dedupe_key": lambda queue, text: queue.put(1, dedupe_key=text),
    "run_id": lambda queue, text: queue.put(1, run_id=text),
    "header": lambda queue, text: queue.put(1, headers={text: text}),
    "leased_by": lambda queue, text: queue.get_message(False, leased_by=text),
    "value": lambda queue, text: queue.put(text),
    "state": lambda queue, text: queue.messages(state=text),
    "error": lambda queue, text: queue.dead_letter(queue.put(1), error=text),
    "worker": lambda queue, text: (queue.pause(worker=text), queue.resume(worker=text)),
    "heartbeat": lambda queue, text: queue.record_worker_heartbeat(text),
    "run": lambda queue, text: queue.run(text),
    "run_messages": lambda queue, text: queue.run_messages(text),
    "cancel_run": lambda queue, text: queue.cancel_run(text),
    "wait_run": lambda queue, text: queue.wait_run(text, timeout=0),
    "queue": lambda queue, text: PersistentQueue(text, store=queue.store).put(1),
    "codec": lambda queue, text: PersistentQueue(QUEUE, store=queue.store, codec=text).put(1),
}
NUMBERS: dict[str, Any] = {
    "delay": lambda queue, number: queue.put(1, delay=number),
    "ttl": lambda queue, number: queue.put(1, ttl=number),
    "priority": lambda queue, number: queue.put(1, priority=number),
    "timeout of a put": lambda queue, number: queue.put(1, timeout=number),
    "timeout of a get": lambda queue, number: queue.get_message(False, number),
    "how many": lambda queue, number: queue.get_messages(number, block=False),
    "limit": lambda queue, number: queue.messages(limit=number),
    "limit of dead letters": lambda queue, number: queue.dead_letters(limit=number),
    "limit of a run": lambda queue, number: queue.run_messages("r", limit=number),
    "limit of events": lambda queue, number: queue.events(limit=number),
    "events after": lambda queue, number: queue.events(after=number),
    "events of the store": lambda queue, number: queue.store.events(after=number),
    "delay of a release": lambda queue, number: queue.release(queue.put(1), delay=number),
    "delay of a requeue": lambda queue, number: queue.requeue_all_dead(delay=number),
    "age": lambda queue, number: queue.prune_dead_letters(older_than=number),
    "age to count": lambda queue, number: queue.count_dead_letters_older_than(older_than=number),
    "splits": lambda queue, number: queue.store.splits(QUEUE, number),
    "keep_seconds": lambda queue, number: queue.store.enable_journal(keep_seconds=number),
    "keep_events": lambda queue, number: queue.store.enable_journal(keep_events=number),
    "lease_timeout": lambda queue, number: PersistentQueue(QUEUE, store=queue.store, lease_timeout=number).get(False),
    "max_attempts": lambda queue, number: PersistentQueue(QUEUE, store=queue.store, max_attempts=number).get(False),
    "maxsize": lambda queue, number: PersistentQueue("bounded", store=queue.store, maxsize=number).put(1, False),
    "renewal": lambda queue, number: queue.put(1) and queue.renew(queue.get_message(), timeout=number),
    "mint": lambda queue, number: queue.store.mint(min(number, 100)),
}
numbers = st.sampled_from(
    [0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, True, 0.0, -0.0, 1.5, 1e-320, 1e15, 1e308]
) | (st.integers() | st.floats())


@pytest.fixture(scope="module", params=OPENERS)
def queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersistentQueue[Any]]:
    place = new_place(request.param, tmp_path_factory.mktemp("arguments"))
    with place.open() as store:
        store.enable_journal()
        with PersistentQueue[Any](QUEUE, store=store, ordering_policy=PriorityOrdering()) as queue:
            yield queue


def asked(queue: PersistentQueue[Any], call: Any, given: Any) -> None:
    """Ask, and see that the queue goes on to work."""
    queue.put("before")
    try:
        call(queue, given)
    except (Empty, Full):
        pass
    except QueueStoreError as error:
        raise AssertionError(f"{given!r} reached the store") from error
    except (QueueError, ValueError, TypeError) as error:
        assert str(error)
        assert not isinstance(error, UnicodeError), "it does not say which argument is wrong"
    assert queue.put("afterwards").state == "ready"
    queue.store.scan(QUEUE, limit=5)
    queue.stats()
    queue.purge()


@given(call=st.sampled_from(sorted(TEXTS)), text=words)
@example(call="heartbeat", text="\ud800")
@example(call="run", text="\ud800")
@example(call="cancel_run", text="\ud800")
@example(call="codec", text="json")
@examples(30)
def test_a_text_is_taken_or_refused(queue: PersistentQueue[Any], call: str, text: str) -> None:
    asked(queue, TEXTS[call], text)


@given(call=st.sampled_from(sorted(NUMBERS)), number=numbers)
@example(call="delay", number=10**400)
@example(call="delay", number=2**64)
@example(call="how many", number=2**63)
@example(call="limit", number=2**63)
@example(call="limit of dead letters", number=2**63 - 1)
@example(call="events after", number=2**63)
@example(call="events of the store", number=1.5)
@example(call="keep_events", number=2**63)
@example(call="keep_seconds", number=True)
@example(call="keep_seconds", number=10**400)
@example(call="max_attempts", number=2**31)
@example(call="maxsize", number=2**63 - 1)
@example(call="mint", number=1.5)
@example(call="mint", number=-1)
@example(call="splits", number=2**53)
@examples(50)
def test_a_number_is_taken_or_refused(queue: PersistentQueue[Any], call: str, number: float) -> None:
    asked(queue, NUMBERS[call], number)


@given(
    call=st.sampled_from(["inspect", "ack", "release", "renew", "requeue_dead", "waits_for", "run", "cancel_run"]),
    thing=things,
)
@example(call="ack", thing=None)
@example(call="renew", thing="0" * 32)
@example(call="waits_for", thing=b"0" * 32)
@examples(20)
def test_what_is_neither_a_message_nor_a_name_is_refused(queue: PersistentQueue[Any], call: str, thing: Any) -> None:
    asked(queue, lambda queue, given: getattr(queue, call)(given), thing)
