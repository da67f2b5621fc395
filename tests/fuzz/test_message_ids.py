"""Wherever a queue or a store takes an id, an id of nobody finds nothing or is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.errors import QueueError
from localqueue.queue import PersistentQueue
from localqueue.stores.port import Changes, Edge, Lease, NewMessage, Settle
from tests.fuzz.effort import examples
from tests.fuzz.words import things
from tests.stores import OPENERS, new_place

QUEUE = "jobs"

#: Other ways to write a real id.
SPELLINGS = [str.upper, str.encode, lambda real: f"+{real[1:]}", lambda real: f"{real} ", lambda real: real[:-1]]

CALLS: dict[str, Any] = {
    "inspect": lambda queue, one: queue.inspect(one),
    "ack": lambda queue, one: queue.ack(one),
    "ack_many": lambda queue, one: queue.ack_many([one]),
    "release": lambda queue, one: queue.release(one),
    "dead_letter": lambda queue, one: queue.dead_letter(one),
    "cancel": lambda queue, one: queue.cancel(one),
    "requeue_dead": lambda queue, one: queue.requeue_dead(one),
    "waits_for": lambda queue, one: queue.waits_for(one),
    "put after": lambda queue, one: queue.put("late", after=[one]),
    "messages after": lambda queue, one: queue.messages(after=one),
    "dead letters after": lambda queue, one: queue.messages(state="dead", after=one),
    "run_messages after": lambda queue, one: queue.run_messages("r", after=one),
    "store.get": lambda queue, one: queue.store.get(QUEUE, one),
    "store.ack_one": lambda queue, one: queue.store.ack_one(QUEUE, one, 1),
    "store.upstream": lambda queue, one: queue.store.upstream(QUEUE, one),
    "store.scan until": lambda queue, one: queue.store.scan(QUEUE, until=one),
    "store.scan after": lambda queue, one: queue.store.scan(QUEUE, after=one),
    "store.renew": lambda queue, one: queue.store.renew([Lease(QUEUE, one, 1)], timeout=1.0),
    "store.requeue": lambda queue, one: queue.store.requeue(QUEUE, [one]),
    "settle": lambda queue, one: queue.store.commit(Changes(settle=[Settle(QUEUE, one, "ack")], strict=False)),
    "settle leased": lambda queue, one: queue.store.commit(Changes(settle=[Settle(QUEUE, one, "ack", 1)])),
    "enqueue": lambda queue, one: queue.store.commit(Changes(enqueue=[NewMessage(one, QUEUE, "1")])),
    "edge up": lambda queue, one: queue.store.commit(Changes(edges=[Edge(one, queue.store.mint()[0])])),
    "edge down": lambda queue, one: queue.store.commit(Changes(edges=[Edge(queue.store.mint()[0], one)])),
}


@pytest.fixture(scope="module", params=OPENERS)
def queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersistentQueue[Any]]:
    """A queue with messages in several states; each test leaves it as it was."""
    place = new_place(request.param, tmp_path_factory.mktemp("ids"))
    with place.open() as store, PersistentQueue[Any](QUEUE, store=store) as queue:
        first = queue.put("first", run_id="r")
        queue.put("after it", run_id="r", after=[first])
        queue.dead_letter(queue.put("dead"))
        queue.put("leased")
        queue.get_message()
        yield queue


def everything(queue: PersistentQueue[Any]) -> list[Any]:
    return queue.store.scan(QUEUE)


@given(call=st.sampled_from(sorted(CALLS)), one=things | st.sampled_from(SPELLINGS))
@example(call="ack", one=None)
@example(call="requeue_dead", one=5)
@example(call="messages after", one="x")
@example(call="dead letters after", one="x")
@example(call="ack", one=str.upper)
@example(call="inspect", one=str.encode)
@examples(60)
def test_an_id_of_nobody_changes_nothing(queue: PersistentQueue[Any], call: str, one: Any) -> None:
    before = everything(queue)
    if callable(one):
        one = one(before[0].id)
    try:
        found = CALLS[call](queue, one)
    except (QueueError, ValueError, TypeError) as error:
        assert str(error)
        if isinstance(one, str) and len(one) < 100 and call != "edge up":
            assert one in str(error) or repr(one)[1:-1] in str(error)
    else:
        whole = one is None and call.endswith(("after", "until"))  # which is as if it were not given
        assert whole or not found or call.startswith("settle") or found in ([False], [None])
    assert everything(queue) == before
