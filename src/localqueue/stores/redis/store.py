"""`RedisQueueStore`: the store port on a Redis server.

Every write is one call of a function on the server, which is one transaction there; `lua/` is what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.ids import Mint
from localqueue.stores import fork
from localqueue.stores.port import AsyncCalls, Changes, Committed, Compacted, Enqueued, OffLoop
from localqueue.stores.redis import backup, privileges, rows, schema
from localqueue.stores.redis.connection import Connections
from localqueue.stores.redis.errors import Refused, explain
from localqueue.stores.redis.fast import Fast, flags
from localqueue.stores.redis.journal import Journal
from localqueue.stores.redis.notify import Notices
from localqueue.stores.redis.operations import Operations
from localqueue.stores.shell import SERVER_CALLS_AT_ONCE
from localqueue.stores.steps import Steps
from localqueue.stores.wiring import Wiring

if TYPE_CHECKING:
    from localqueue.stores.loops import Loops
    from localqueue.stores.redis.native import NativeCalls

#: What became of a message, by the letters of `lua/enqueue.lua`.
_STATES = {
    "r": "ready", "d": "delayed", "w": "waiting", "b": "blocked", "x": "dead", "e": "expired", "c": "cancelled",
}  # fmt: skip
_OUTCOMES: dict[str, tuple[Any, str]] = {"-": ("dropped", "dropped")}
_OUTCOMES |= {letter: ("stored", state) for letter, state in _STATES.items()}
_OUTCOMES |= {letter.upper(): ("diverted", state) for letter, state in _STATES.items()}


class RedisQueueStore(Fast, Notices, Journal, Operations):
    """Redis-backed queue store, for a server of version 7.0 or newer or a cluster of them.

    The server must persist what it confirms (`appendonly yes`), or the store must be opened with `volatile=True`. With
    `durability="process"` what is confirmed survives the death of any process; how much a loss of power can take is the
    server's setting (`appendfsync everysec`: about the last second). `"power"` insists on `appendfsync always`.
    `timeout` is how long to wait for an answer. Safe to share between threads, and to carry over a fork.

    With `read_only` the namespace must be there and nothing in it is changed. The functions that read are handed to a
    server that does not have them yet, which is not data; a replica gets them from its primary.
    """

    calls_at_once = SERVER_CALLS_AT_ONCE
    _on_loops: Loops[NativeCalls]

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
        volatile: bool = False,
        read_only: bool = False,
    ) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        self._url = url
        self._clock = clock
        self._timeout = timeout
        self._root = schema.root(namespace)
        self._closed = False
        self._connect()
        try:
            if read_only:  # what the server keeps is the matter of those who write
                durability, volatile = "process", True
            schema.check_server(self._server, durability=durability, volatile=volatile)
            self._keys = schema.keys(self._root, cluster=self._server.is_cluster)
            found = schema.find_namespace(self._server, namespace, looking=read_only)
            privileges.check(self._server, self._root, looking=read_only)
            secret = schema.open_namespace(self._server, namespace, found)
            self._proof = str(secret).encode()
            self.ids = Mint(secret)
        except BaseException:
            self._server.close()
            raise
        fork.track(self)

    def _connect(self) -> None:
        self._server = Connections(self._url, timeout=self._timeout)
        self._start_listening()

    def async_calls(self, off: OffLoop) -> AsyncCalls | None:
        """See `port.CallsOnLoop`; None where the connections are encrypted."""
        self._server.require_open()
        if not self._server.suits_loops:
            return None
        from localqueue.stores.loops import Loops
        from localqueue.stores.redis.native import NativeCalls

        loops: Loops[NativeCalls] = vars(self).setdefault("_on_loops", Loops())  # in one step: threads may ask at once
        return loops.get(lambda: NativeCalls(self, self._server, off))

    @property
    def url(self) -> str:
        return self._server.shown

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        seconds, micros = self._server.ask(b"TIME", again=True)
        return int(seconds) + int(micros) / 1e6

    def commit(self, changes: Changes) -> Committed:
        return self._run(self.committing(changes))

    def committing(self, changes: Changes) -> Steps[Committed]:
        enqueue = changes.enqueue
        try:
            if (
                len(enqueue) == 1
                and not changes.keep_ids
                and not (changes.edges or changes.settle or changes.records or changes.limits or changes.topics)
                and changes.lease is None
                and rows.is_plain(enqueue[0])
            ):
                return (yield from self._putting(enqueue[0]))
            return (yield from self._committing(changes))
        except Refused as refused:
            why = refused
        raise (yield lambda: explain(why, changes, self._key, self._name_of)) from None

    def _committing(self, changes: Changes) -> Steps[Committed]:
        linked = any(message.after for message in changes.enqueue)
        in_order = Wiring().in_order(changes.enqueue) if linked else changes.enqueue
        used = {message.queue for message in in_order}
        used.update(limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None)
        if not used <= self._made:
            yield lambda: self._make(used)
        records, versions = rows.record_writes(self.ids, changes.records)
        arguments = rows.commit(self.ids, self._digest, changes, in_order, records)
        now, (landed, settled, leased) = yield from self._writing("commit" if in_order else "settle", **arguments)
        letters, existing, newer = landed
        self._tell(changes)
        enqueued = self._enqueued(letters.decode(), existing, now)
        if linked:
            outcomes = dict(zip((message.id for message in in_order), enqueued, strict=True))
            enqueued = [outcomes[message.id] for message in changes.enqueue]
        if newer is not None:
            first = self._passed(newer, len(enqueued))
            enqueued = [one._replace(id=self.ids.id_of(key)) for key, one in enumerate(enqueued, first)]
        return Committed(enqueued, flags(settled), self._leased(changes.lease, leased, now), versions)

    def _enqueued(self, letters: str, existing: list[Any], now: float) -> list[Enqueued]:
        originals = iter(self._messages(existing))
        plain = {letter: Enqueued(*_OUTCOMES[letter], now) for letter in set(letters) - {"="}}
        return [plain.get(letter) or _duplicate(next(originals), now) for letter in letters]

    # life

    def backup(self, path: str) -> None:
        backup.write(self, path)

    def _compact(self) -> Compacted:
        """What the server takes is not ours alone, so nobody can say how much of it was given back."""
        self._server.ask(b"MEMORY", b"PURGE", again=True)
        return Compacted()

    def close(self) -> None:
        """Close the connections. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._closed:
            return
        self._closed = True
        fork.forget(self)
        self._server.close()
        if "_on_loops" in vars(self):
            self._on_loops.close()
        self._ear.close()
        self._record_ear.close()

    # fork: a connection is the parent's; the child lets go of it without a word and makes its own.

    def hold_for_fork(self) -> None: ...

    def go_on_after_fork(self) -> None: ...

    def close_in_child(self) -> None:
        self._server.abandon()
        if "_on_loops" in vars(self):
            self._on_loops.abandon()
        self._ear.abandon()
        self._record_ear.abandon()

    def reopen_in_child(self) -> None:
        before = self._server
        self._connect()
        self._server.adopt(before)
        self.ids = Mint(int(self._proof))  # its lock may have been held when the process forked


def _duplicate(existing: Any, now: float) -> Enqueued:
    return Enqueued("duplicate", existing.state, now, existing)
