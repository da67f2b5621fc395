"""Sending messages on from where they were received, so that one which comes twice does no harm.

Into a store a message is put once: the commit that stores it also notes where it came from, and finds that note when
the same message comes again. Into a broker it is sent at least once, under the same id, and with that as its dedupe key
where the broker drops duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from localqueue.brokers import envelope
from localqueue.brokers.port import Broker, Outgoing
from localqueue.brokers.store import StoreBroker, as_broker
from localqueue.errors import IdTaken, RecordConflict, UnsupportedByBroker
from localqueue.stores.port import Changes, QueueStore, RecordWrite

KIND = "bridge"

#: How long a store remembers what came to it, in seconds: a source may repeat itself for so long.
REMEMBERED = 7 * 86400.0
_PAGE = 200
_LOOK_EVERY = 100  # messages
_NOTED = b"1"  # the store itself knows when


class Parcel(NamedTuple):
    """A message on its way. `origin` names it at its source, where it has been delivered, the same each time."""

    origin: str
    message: Outgoing


class Sent(NamedTuple):
    """How many parcels are new at the target, and how many it had already."""

    moved: int = 0
    duplicates: int = 0


class Sender(Protocol):
    """Sends to one queue of one target. What `send` returned for is there."""

    def send(self, parcels: Sequence[Parcel]) -> Sent: ...

    def forget(self, origins: Sequence[str]) -> None:
        """These will never come again."""

    def close(self) -> None: ...


def sender_to(target: Any, queue: str, *, source: str, remember: float = REMEMBERED) -> Sender:
    """A sender into a queue of a store or a broker, given open or by its address.

    `source` names where the parcels come from: two sources do not meet by having the same ids.
    """
    broker = as_broker(target)
    owned = isinstance(target, str)
    if isinstance(broker, StoreBroker):
        return StoreSender(broker, queue, source=source, remember=remember, owned=owned)
    return BrokerSender(broker, queue, owned=owned)


class StoreSender:
    """Puts each parcel into a queue of a store exactly once."""

    def __init__(self, broker: StoreBroker, queue: str, *, source: str, remember: float, owned: bool = False) -> None:
        self._broker = broker
        self._store: QueueStore = broker.store
        self._queue = queue
        self._source = source
        self._remember = remember
        self._owned = owned
        self._forgotten: list[str] = []
        self._behind = f"{source}/"
        self._until_look = _LOOK_EVERY

    def send(self, parcels: Sequence[Parcel]) -> Sent:
        unique = list({one.origin: one for one in parcels}.values())
        left = unique
        while left:
            try:
                self._commit(left)
                break
            except IdTaken:
                continue
            except RecordConflict:
                left = [one for one in left if self._store.record(KIND, self._key(one.origin)) is None]
        self._look(len(left))
        return Sent(len(left), len(parcels) - len(left))

    def _commit(self, parcels: Sequence[Parcel]) -> None:
        ids = self._store.mint(len(parcels))
        notes = [RecordWrite(KIND, self._key(one.origin), _NOTED, expect=0) for one in parcels]
        done, self._forgotten = self._forgotten, []
        erased = [RecordWrite(KIND, self._key(origin), None) for origin in done]
        drafts = [
            envelope.draft(message_id, self._queue, one.message) for message_id, one in zip(ids, parcels, strict=True)
        ]
        try:
            self._store.commit(Changes(enqueue=drafts, records=[*erased, *notes]))
        except BaseException:
            self._forgotten = done
            raise

    def forget(self, origins: Sequence[str]) -> None:
        self._forgotten.extend(origins)
        if len(self._forgotten) >= 10 * _PAGE:
            self._erase(self._forgotten)
            self._forgotten = []

    def _erase(self, origins: Sequence[str]) -> None:
        for begin in range(0, len(origins), _PAGE):
            some = origins[begin : begin + _PAGE]
            self._store.commit(Changes(records=[RecordWrite(KIND, self._key(one), None) for one in some]))

    def _look(self, count: int) -> None:
        """Forget what is too old to come again, a page for every so many messages."""
        self._until_look -= count
        if self._until_look > 0:
            return
        self._until_look = _LOOK_EVERY
        page = self._store.records(KIND, after=self._behind, limit=_PAGE)
        page = [one for one in page if one.key.startswith(f"{self._source}/")]
        old = self._store.now() - self._remember
        gone = [RecordWrite(KIND, one.key, None, one.version) for one in page if one.updated_at < old]
        if gone:
            try:
                self._store.commit(Changes(records=gone))
            except RecordConflict:
                return  # another one of the same bridge was here
        self._behind = page[-1].key if len(page) == _PAGE else f"{self._source}/"

    def _key(self, origin: str) -> str:
        return f"{self._source}/{origin}"

    def close(self) -> None:
        if self._forgotten:
            forgotten, self._forgotten = self._forgotten, []
            self._erase(forgotten)
        if self._owned:
            self._broker.close()


class BrokerSender:
    """Sends each parcel at least once, confirmed."""

    def __init__(self, broker: Broker, queue: str, *, owned: bool = False) -> None:
        self._broker = broker
        self._queue = queue
        self._owned = owned
        self._ensured = False

    def send(self, parcels: Sequence[Parcel]) -> Sent:
        if not self._ensured:
            self._broker.ensure(self._queue)
            self._ensured = True
        can = self._broker.capabilities
        messages = []
        for origin, message in parcels:
            if message.priority > can.priorities:
                message = message._replace(priority=0)
            dedupe_key = message.dedupe_key or origin
            messages.append(message._replace(id=origin, delay=0.0, dedupe_key=dedupe_key if can.dedupe else None))
        self._broker.send_batch(self._queue, messages)
        return Sent(len(parcels))

    def forget(self, origins: Sequence[str]) -> None:
        """A broker remembers, or not, as it likes."""

    def close(self) -> None:
        if self._owned:
            self._broker.close()


def refuses(error: BaseException) -> bool:
    """Whether a target will never take a message, rather than not now."""
    return isinstance(error, UnsupportedByBroker | ValueError | TypeError)
