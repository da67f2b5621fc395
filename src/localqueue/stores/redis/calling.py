"""Calling the library for one namespace: time, names, refusals and transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from localqueue.errors import QueueStoreError, QueueStoreVersionError
from localqueue.ids import Mint
from localqueue.stores.observing import Observed
from localqueue.stores.port import StoredMessage, Transition
from localqueue.stores.redis import values
from localqueue.stores.redis.link import Link
from localqueue.stores.redis.names import digest
from localqueue.stores.wake import Wake

_REFUSED = b"!"
VERSION = b"1"  # of the data, as in `lua/base.lua`


class Refused(Exception):
    """The function changed nothing; `name` is that of the exception it asks for."""

    def __init__(self, name: str, details: list[Any]) -> None:
        super().__init__(name, *details)
        self.name = name
        self.details = details


class Calls(Observed):
    """What the parts of the store share. A queue is known by the digest of its name."""

    ids: Mint
    _link: Link
    _root: bytes
    _keys: tuple[bytes, ...]
    _proof: bytes  # by which the server knows that the namespace is still the one that was opened
    _clock: Callable[[], float] | None
    _wake: Wake

    def __init__(self) -> None:
        super().__init__()
        self._digests: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._made: set[str] = set()  # queues that the server knows by name

    def _time(self) -> bytes:
        """The time of a test's clock; '' has the server look at its own."""
        return b"" if self._clock is None else repr(float(self._clock())).encode()

    def _raw(self, name: str, *arguments: bytes, again: bool = False) -> Any:
        answer = self._link.call(name, (*self._keys, *arguments, self._proof), again=again)
        if type(answer) is list and answer and answer[0] == _REFUSED:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: list[Any]) -> Exception:
        name = answer[1].decode()
        if name != "Version":
            return Refused(name, answer[2:])
        if not answer[2]:
            return QueueStoreError(
                f"the namespace was removed from the Redis server at {self._link.shown}; open the store again",
                path=self._link.shown,
            )
        return QueueStoreVersionError(
            f"the namespace at {self._link.shown} has data version {answer[2].decode()}, which a newer release wrote",
            path=self._link.shown,
        )

    def _require(self, version: bytes | None, proof: bytes | None) -> None:
        """Refuse a namespace that is not the one that was opened, as every function does."""
        if version != VERSION or proof != self._proof:
            raise self._refusal([_REFUSED, b"Version", b"" if version == VERSION else version or b""])

    def _write(self, name: str, *arguments: bytes, undo: bool = False, again: bool = False) -> tuple[float, Any]:
        """Call a function that writes; the store's time and the result."""
        seen = self._watched.seen
        flags = (b"o" if seen is not None else b"") + (b"u" if undo else b"")
        now, result, notes = self._raw(name, self._time(), flags, *arguments, again=again)
        at = float(now)
        if seen is not None and notes:
            seen += [self._transition(note, at) for note in notes]
        return at, result

    def _read(self, name: str, *arguments: bytes) -> tuple[float, Any]:
        answer = self._raw(name, self._time(), *arguments, again=True)
        return float(answer[0]), answer[1]

    def _transition(self, note: list[Any], at: float) -> Transition:
        kind, queue, key, attempt, by, since, error = note
        return Transition(
            kind.decode(), self._name_of(queue), self._id_of(key), at, int(attempt), values.text(by),
            values.real(since), values.from_json(error),
        )  # fmt: skip

    # names

    def _digest(self, name: str) -> bytes:
        known = self._digests.get(name)
        if known is None:
            known = self._digests[name] = digest(name)
            self._names[known] = name
        return known

    def _queue(self, name: str) -> bytes:
        """The digest of a queue that is about to be used, which the server gets to know by name."""
        if name not in self._made:
            self._make((name,))
        return self._digests[name]

    def _make(self, names: Iterable[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._made]
        if new:
            pairs = [part for name in new for part in (self._digest(name), name.encode())]
            self._raw("name_queue", b"", b"", str(len(new)).encode(), *pairs, again=True)
            self._made.update(new)

    def _name_of(self, queue: bytes) -> str:
        known = self._names.get(queue)
        if known is None:
            found = self._link.command(b"HGET", self._root + b":names", queue)
            known = self._names[queue] = "" if found is None else found.decode()
        return known

    # ids

    def _key(self, message_id: str) -> bytes:
        """The key inside an id, or '' for anything else."""
        key = self.ids.key_of(message_id)
        return b"" if key is None else key.to_bytes(8)

    def _id_of(self, key: bytes) -> str:
        return self.ids.id_of(int.from_bytes(key))

    def _messages(self, found: list[Any]) -> list[StoredMessage]:
        """Messages from the groups of four that `show` makes."""
        return [
            values.stored_message(self.ids, self._name_of(values.queue_of(found[n + 1])), *found[n : n + 4])
            for n in range(0, len(found), 4)
        ]
