"""The schema of a queue, from a sample of what is in it. Nothing is taken and nothing is made by looking."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from localqueue.events.journal import JournalEvent
from localqueue.spark.options import OptionError, Options, parse
from localqueue.spark.place import opened
from localqueue.spark.source.inference import Inferred, infer
from localqueue.spark.source.rows import ENQUEUED
from localqueue.spark.source.values import value_text
from localqueue.stores.address import shown
from localqueue.stores.port import DEAD, QueueStore, StoredMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PARTS = 10
_PAGE, _LOOKS = 1000, 5
_log = logging.getLogger("localqueue")


class NothingToInfer(OptionError):
    """A queue without a payload that has fields."""


def infer_schema(
    *,
    url: str,
    queue: str,
    sample: int = 1000,
    view: str = "messages",
    timestamps: bool = False,
    namespace: str | None = None,
) -> StructType:
    """The schema that a sample of a queue's payloads fits, to be given to `.schema(...)`, with a column `_corrupt`.

    Each sampled payload that is a JSON object fits it; what comes later may not, and is in `_corrupt` then. The sample
    is of the old and the new messages alike; `view` is `messages`, `dead`, or `events` for what the journal has. With
    `timestamps`, text that is always an ISO date or time is one. It needs no session. `NothingToInfer` when the queue
    has no JSON object.
    """
    given = {"url": url, "queue": queue, "view": view, "inferSchema": "true", "sampleSize": str(sample)}
    if namespace is not None:
        given["namespace"] = namespace
    return inferred_from(parse({**given, "inferTimestamp": str(timestamps)})).schema


def inferred_from(options: Options) -> Inferred:
    """The schema of the queue that the options name, and what it was made of."""
    queue = options.need_queue()
    if options.view not in ("messages", "dead", "events"):
        raise OptionError(f"view {options.view!r} has no payload to infer a schema from: use messages, dead or events")
    with opened(options, read_only=True) as store:
        made = infer(_texts(store, queue, options), times=options.infer_times, view=options.view)
        if made is None:
            raise NothingToInfer(_nothing(store, queue, options))
    if made.left_out:
        _log.warning(
            "fields of queue %r that can not be columns are left out of the schema: %s", queue, ", ".join(made.left_out)
        )
    return made


def _texts(store: QueueStore, queue: str, options: Options) -> Iterator[str | None]:
    sampled: Iterable[StoredMessage | JournalEvent]
    if options.view == "events":
        sampled = _entries(store, queue, options.sample)
    elif options.view == "dead":
        sampled = store.scan(queue, state=DEAD, limit=options.sample)
    else:
        sampled = _messages(store, queue, options.sample)
    for one in sampled:
        yield value_text(one.payload, one.codec)


def _messages(store: QueueStore, queue: str, most: int) -> Iterator[StoredMessage]:
    """All messages where they are few enough, else some of each part of the queue."""
    oldest = store.scan(queue, limit=most + 1)
    if len(oldest) <= most:
        yield from oldest
        return
    ends = store.splits(queue, min(_PARTS, most))
    left, after = most, None
    for number, until in enumerate(ends):
        page = store.scan(queue, after=after, until=until, limit=_share(left, len(ends) - number))
        yield from page
        left, after = left - len(page), until


def _entries(store: QueueStore, queue: str, most: int) -> Iterator[JournalEvent]:
    """The same of what was put. A part of the journal in which little was put is not searched to its end."""
    first, last = store.journal_span()
    parts = min(_PARTS, most, last - first + 1)
    left = most
    for number in range(parts):
        after, until = (first - 1 + (last - first + 1) * n // parts for n in (number, number + 1))
        wanted = _share(left, parts - number)
        for _ in range(_LOOKS):
            page = store.events(after, max(_PAGE, wanted), queue)
            put = [event for event in page if event.seq <= until and event.type == ENQUEUED][:wanted]
            yield from put
            wanted, left = wanted - len(put), left - len(put)
            if not wanted or not page or page[-1].seq >= until:
                break
            after = page[-1].seq


def _share(left: int, parts: int) -> int:
    """What one of the parts gives: what it lacks is for those that follow."""
    return -(-left // parts)


def _nothing(store: QueueStore, queue: str, options: Options) -> str:
    names = sorted(store.queues())
    where = f"of {shown(options.url)}, namespace {options.namespace!r}"
    if queue not in names:
        there = f"there are {', '.join(map(repr, names))}" if names else "there is none"
        return f"there is no queue {queue!r} {where} to infer a schema from: {there}"
    what = {"dead": "dead letters", "events": "entries of the journal"}.get(options.view, "messages")
    way = "write the schema, as in order_id long, city string"
    if options.view == "messages":
        way += ", or infer it from the journal, view 'events', which also has what was acked"
    return f"queue {queue!r} {where} has no {what} whose payload is a JSON object to infer a schema from: {way}"
