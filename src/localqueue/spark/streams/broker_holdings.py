"""What a consumer holds of a broker: the messages it has leased, by their keys in the claims and by their names."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from localqueue.brokers.port import Broker, Delivery, SupportsHandover
from localqueue.spark.streams.claim_blob import columns_of
from localqueue.spark.streams.origin import Origin

#: A message of a claim: its id there, and its token.
Key = tuple[str, int]


class Holding:
    """A message that was leased and is not settled. `delivery` is None while it is expected to come again; `chunk` is
    None until it is part of a claim."""

    __slots__ = ("chunk", "delivery", "name")

    def __init__(self, name: str | None, delivery: Delivery | None, chunk: str | None = None) -> None:
        self.name = name
        self.delivery = delivery
        self.chunk = chunk


class Holdings:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker if isinstance(broker, SupportsHandover) else None
        self._by_key: dict[Key, Holding] = {}
        self._by_name: dict[str, Key] = {}
        self._ids: set[str] = set()

    def __iter__(self) -> Iterator[Holding]:
        return iter(self._by_key.values())

    def get(self, message_id: str, token: int | None) -> Holding | None:
        return self._by_key.get((message_id, token or 0))

    def named(self, name: str) -> Holding | None:
        key = self._by_name.get(name)
        return None if key is None else self._by_key[key]

    def add(self, key: Key, held: Holding) -> None:
        self._by_key[key] = held
        self._ids.add(key[0])
        if held.name is not None:
            self._by_name[held.name] = key

    def remove(self, message_id: str, token: int | None) -> None:
        key = (message_id, token or 0)
        held = self._by_key.pop(key)
        self._ids.discard(message_id)
        if held.name is not None and self._by_name.get(held.name) == key:
            del self._by_name[held.name]

    def own_id(self, message_id: str) -> str:
        """An id that no other message here has: a claim knows its messages by them, and senders may use one twice."""
        return message_id if message_id not in self._ids else f"{message_id}~{secrets.token_hex(4)}"

    def origins(self, chunk: bytes) -> list[Origin]:
        """What the messages of a chunk are known by, those that have a name."""
        batch = columns_of(chunk)
        keys = zip(batch.column("id").to_pylist(), batch.column("attempts").to_pylist(), strict=True)
        held = ((key, self._by_key[key]) for key in keys)
        return [Origin(*key, one.name, self._written(one.delivery)) for key, one in held if one.name is not None]

    def _written(self, delivery: Delivery | None) -> str | None:
        return None if delivery is None or self._broker is None else self._broker.written(delivery)

    def resumed(self, queue: str, one: Origin) -> Delivery | None:
        """A delivery to an earlier driver, if its receipt is of use to this one."""
        if one.receipt is None or self._broker is None:
            return None
        return self._broker.resumed(queue, one.id, one.receipt)
