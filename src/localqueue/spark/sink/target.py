"""Where the rows of a sink go, and what the queue there promises: its capacity, and a copy for each subscriber.

A store knows neither of a queue's capacity nor of a fixed set of subscribers: like a `PersistentQueue`, a sink is told
them, under the names that the policies have. Both are decided inside of the transaction that puts the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from localqueue.policies import subscriber_queue_name
from localqueue.queue.setup import check_name
from localqueue.spark.options import OptionError, Options
from localqueue.stores.port import Limit, Overflow, Page, QueueStore


class NoRoom(RuntimeError):
    """A queue has less room than a write needs."""


class NoSubscribers(RuntimeError):
    """There is nobody to make a copy for."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The queue of rows that name none, how much it admits, and who gets a copy: `subscribers` and, with `fanout`,
    those that the store knows at that moment. A plain object that travels to the tasks."""

    queue: str | None = None
    limit: Limit | None = None
    subscribers: tuple[str, ...] = ()
    fanout: bool = False

    def as_of_now(self, store: QueueStore) -> Reach:
        """What holds for one transaction."""
        if not self.subscribers and not self.fanout:
            return Reach(self, None)
        assert self.queue is not None
        subscribers, version = self.subscribers, None
        if self.fanout:
            version, stored = store.subscriptions(self.queue)
            subscribers = tuple(dict.fromkeys((*subscribers, *stored)))
        if not subscribers:
            raise NoSubscribers(
                f"queue {self.queue!r} has no subscribers, and option 'fanout' makes a copy for each: subscribe one "
                "first, or name those that are always there in option 'subscribers'"
            )
        return Reach(self, subscribers, version)

    def refusal(self, store: QueueStore, queue: str, rows: int, before: int, *, kept: bool) -> NoRoom:
        """Why a write of so many rows did not fit a queue, of which some were put before, and are `kept` or not."""
        assert self.limit is not None
        load = store.load(queue)
        room = max(self.limit.maxsize - load + before, 0)
        stored = f"the first {before} are stored, and the next run goes on behind them" if before and kept else ""
        return NoRoom(
            f"queue {queue!r} admits {self.limit.maxsize} ready messages and has {max(load - before, 0)}: there is "
            f"room for {room} of {rows} rows, and {stored or 'nothing was stored'}. Consume some first, raise option "
            "'maxsize', write less at a time, or choose another option 'overflow' (drop-newest, drop-oldest, "
            "overflow-queue)"
        )


def target_of(options: Options, *, routed: bool = False) -> Target:
    """What the options say. Rows that are `routed`, by a column of their own, go to many queues."""
    limit = None
    if options.maxsize is not None:
        limit = Limit(options.maxsize, cast("Overflow", options.overflow), options.overflow_queue)
        if options.overflow_queue is not None:
            check_name(options.overflow_queue)
    of_one = {"maxsize": limit is not None, "subscribers": bool(options.subscribers), "fanout": options.fanout}
    given = next((name for name, is_given in of_one.items() if is_given), None)
    if given is not None and (routed or options.queue is None):
        raise OptionError(
            f"option {given!r} is of one queue: name it with option 'queue', and write rows without a column 'queue'"
        )
    return Target(queue=options.queue, limit=limit, subscribers=options.subscribers, fanout=options.fanout)


@dataclass(frozen=True)
class Reach:
    """A target with its subscribers, None for one that has none, and the version of those that the store knows."""

    target: Target
    subscribers: tuple[str, ...] | None
    version: int | None = None

    @property
    def queues(self) -> list[str]:
        """The queues that rows go to which name none."""
        queue = self.target.queue
        if self.subscribers is None:
            return [] if queue is None else [queue]
        return [subscriber_queue_name(queue or "", one) for one in self.subscribers]

    @property
    def limits(self) -> dict[str, Limit]:
        return {} if self.target.limit is None else dict.fromkeys(self.queues, self.target.limit)

    @property
    def topics(self) -> dict[str, int]:
        return {} if self.version is None or self.target.queue is None else {self.target.queue: self.version}

    def copies(self, page: Page) -> Iterator[Page]:
        """A page for each queue that gets it, with the dedupe keys that `put` gives to copies."""
        if self.subscribers is None:
            yield page
            return
        for subscriber, queue in zip(self.subscribers, self.queues, strict=True):
            keys = page.dedupe_key
            own = keys and [None if key is None else f"{key}:{subscriber}" for key in keys]
            yield page._replace(queue=queue, dedupe_key=own)
