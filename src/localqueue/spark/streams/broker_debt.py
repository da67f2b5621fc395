"""What a broker is still to be told: messages of settled claims that are not known to be acked there.

Such a message may be delivered again, and is acked then instead of becoming a row. How long that has to be remembered
depends on the broker. Where an ack is answered and final, until the answer. Where a message may come again all the same
(SQS says so; RabbitMQ does not answer an ack), the names of the last
200,000 messages are kept. Of Kafka an ack is a
position: only who sets it back gets messages again, and wants them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from localqueue.brokers.capabilities import BrokerCapabilities
from localqueue.spark.streams.consumer_record import ORIGINS
from localqueue.spark.streams.origin import Origin, encode
from localqueue.stores.port import RecordWrite

#: How many names of messages that were acked are kept, where they may come again.
REMEMBERED = 200_000


class Debt:
    """Names by the chunk they were claimed in. `writes` is what the records are to say, until it is `written`."""

    def __init__(self, can: BrokerCapabilities) -> None:
        self._remembers = not can.final_acks and can.single_acks
        self._chunks: dict[str, dict[str, Origin]] = {}
        self._settled: dict[str, None] = {}
        self._owed: dict[str, tuple[str, Any]] = {}
        self._changed: set[str] = set()
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._owed

    def error(self, name: str | None) -> Any:
        """Why the message is to become a dead letter; None if it is to be acked."""
        return None if name is None or name not in self._owed else self._owed[name][1]

    def claimed(self, chunk: str, origins: Sequence[Origin]) -> None:
        """A chunk is written, with these messages in it."""
        self._chunks[chunk] = {one.name: one for one in origins}

    def owe(self, name: str, chunk: str, error: Any) -> None:
        """The claim of a message is settled."""
        self._owed[name] = (chunk, error)
        self._settled[chunk] = None

    def paid(self, acked: Sequence[str], buried: Sequence[str]) -> None:
        """The broker has been told of these."""
        for name in [*(() if self._remembers else acked), *buried]:
            chunk, _ = self._owed.pop(name, ("", None))
            if self._chunks.get(chunk, {}).pop(name, None) is not None:
                self._changed.add(chunk)
        if self._remembers:
            self._strip(acked)
        while len(self._owed) > REMEMBERED:
            self._drop(next(iter(self._settled)))

    def _strip(self, acked: Sequence[str]) -> None:
        """Of a message that is acked only the name matters."""
        for name in acked:
            chunk, _ = self._owed.get(name, ("", None))
            kept = self._chunks.get(chunk, {})
            if name in kept and kept[name].receipt is not None:
                kept[name] = Origin("", 0, name)
                self._changed.add(chunk)

    def _drop(self, chunk: str) -> None:
        self._settled.pop(chunk, None)
        for name in self._chunks.get(chunk, ()):
            self._owed.pop(name, None)
        self._chunks[chunk] = {}
        self._changed.add(chunk)

    def writes(self, errors: Mapping[str, Mapping[str, Any]], released: Collection[str | None]) -> list[RecordWrite]:
        """What has changed, with the errors by chunk and name of a commit, and without chunks that it gives back."""
        for chunk in released:
            if chunk is not None:
                self._drop(chunk)
        for chunk, found in errors.items():
            for name, error in found.items():
                if name in self._chunks.get(chunk, {}):
                    said = json.dumps(error, default=str)
                    self._chunks[chunk][name] = self._chunks[chunk][name]._replace(error=said)
                    self._changed.add(chunk)
        self._asked = set(self._changed)
        return [
            RecordWrite(ORIGINS, chunk, encode(list(kept.values())) if (kept := self._chunks.get(chunk)) else None)
            for chunk in self._asked
        ]

    def written(self) -> None:
        """The records say what `writes` asked for."""
        self._changed -= self._asked
        for chunk in self._asked:
            if not self._chunks.get(chunk):
                self._chunks.pop(chunk, None)
                self._settled.pop(chunk, None)
