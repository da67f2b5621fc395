"""Calling the functions for one namespace: time, names, ids, refusals and transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from localqueue.errors import QueueStoreError, QueueStoreVersionError
from localqueue.stores.port import StoredMessage, Transition
from localqueue.stores.redis import rows
from localqueue.stores.redis.connection import Connections, Question
from localqueue.stores.redis.errors import Refused
from localqueue.stores.redis.schema import FUNCTIONS, VERSION, digest
from localqueue.stores.shell import Shell
from localqueue.stores.steps import Steps, run
from localqueue.stores.wake import Wake

R = TypeVar("R")

_REFUSED = b"!"


class Namespace(Shell):
    """What the parts of the store share. A queue is known by the digest of its name."""

    _server: Connections
    _root: bytes
    _keys: tuple[bytes, ...]
    _proof: bytes  # by which the server knows that the namespace is still the one that was opened
    _clock: Callable[[], float] | None
    _wake: Wake
    _record_wake: Wake

    def __init__(self, *, namespace: str, durability: str, read_only: bool) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        self._digests: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._made: set[str] = set()  # queues that the server knows by name

    def _time(self) -> bytes:
        """The time of a test's clock; '' has the server look at its own."""
        return b"" if self._clock is None else repr(float(self._clock())).encode()

    def _run(self, steps: Steps[R]) -> R:
        return run(steps, self._server.answer)

    def _call(self, name: str, *arguments: bytes, reads: bool = False, again: bool = False) -> Question:
        if self.read_only and not reads:
            self._require_writable()
        command = b"FCALL_RO" if reads else b"FCALL"
        return (command, FUNCTIONS[name], *self._keys, *arguments, self._proof), again

    def _checked(self, answer: Any) -> Any:
        if type(answer) is list and answer and answer[0] == _REFUSED:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: list[Any]) -> Exception:
        name, shown = answer[1].decode(), self._server.shown
        if name != "Version":
            if name == "IdTaken" and len(answer) > 3:
                self.ids.overtake(int.from_bytes(answer[3]))
            return Refused(name, answer[2:])
        if answer[2] < VERSION:
            return QueueStoreError(
                f"the namespace was removed from the Redis server at {shown}, or made anew by an older release; open "
                "the store again",
                path=shown,
            )
        return QueueStoreVersionError(
            f"the namespace at {shown} has data version {answer[2].decode()}, which a newer release wrote", path=shown
        )

    def _require(self, version: bytes | None, proof: bytes | None) -> None:
        """Refuse a namespace that is not the one that was opened, as every function does."""
        if version != VERSION or proof != self._proof:
            raise self._refusal([_REFUSED, b"Version", b"" if version == VERSION else version or b""])

    def _write(self, function: str, again: bool = False, **arguments: Any) -> tuple[float, Any]:
        """Call a function that writes; the store's time and the result."""
        return self._run(self._writing(function, again, **arguments))

    def _writing(self, function: str, again: bool = False, **arguments: Any) -> Steps[tuple[float, Any]]:
        seen = self._watched.seen
        flags = b"" if seen is None else b"o"
        answer = yield self._call(function, self._time(), flags, rows.pack(arguments), again=again)
        now, result, notes = self._checked(answer)
        at = float(now)
        if seen is not None and notes:
            seen += [self._transition(note, at) for note in notes]
        return at, result

    def _read(self, function: str, **arguments: Any) -> tuple[float, Any]:
        question = self._call(function, self._time(), b"", rows.pack(arguments), reads=True, again=True)
        answer = self._checked(self._server.answer(question))
        return float(answer[0]), answer[1]

    def _transition(self, note: list[Any], at: float) -> Transition:
        kind, queue, key, attempt, by, since, error = note
        return Transition(
            kind.decode(), self._name_of(queue), self._id_of(key), at, int(attempt), rows.text(by),
            rows.real(since), rows.from_json(error),
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
        return self._run(self._naming(name))

    def _naming(self, name: str) -> Steps[bytes]:
        if name not in self._made:
            yield lambda: self._make((name,))
        return self._digests[name]

    def _make(self, names: Iterable[str]) -> None:
        new = {self._digest(name): name for name in dict.fromkeys(names) if name not in self._made}
        if new:
            self._write("name_queues", again=True, names=new)
            self._made.update(new.values())

    def _name_of(self, queue: bytes) -> str:
        known = self._names.get(queue)
        if known is None:
            found = self._server.ask(b"HGET", self._root + b":names", queue, again=True)
            known = self._names[queue] = "" if found is None else found.decode()
        return known

    def _touched(self, *queues: str) -> None:
        """Have those in this process look who wait for these; the server tells all others."""
        self._wake.touched([self._digest(name).decode() for name in queues])

    # ids

    def _key(self, message_id: str) -> bytes:
        """The key inside an id, or '' for anything else."""
        return rows.key_of(self.ids, message_id)

    def _id_of(self, key: bytes) -> str:
        return self.ids.id_of(int.from_bytes(key))

    def _passed(self, key: bytes, count: int = 1) -> int:
        """The first of some keys that the server has gone on to; those that are minted from now on are newer."""
        first = int.from_bytes(key)
        self.ids.reserve(above=first + count - 1)
        return first

    def _messages(self, found: list[Any]) -> list[StoredMessage]:
        """Messages from the groups of four that `show` makes."""
        return [
            rows.stored_message(self.ids, self._name_of(rows.queue_of(found[n + 1])), *found[n : n + 4])
            for n in range(0, len(found), 4)
        ]
