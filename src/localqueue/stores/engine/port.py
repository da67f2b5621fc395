"""What the engine asks of a store: rows, and the writing down of what became of them.

One `Rows` serves one commit. Whatever it is asked sees what was written through it before. What must exclude another
commit (a lock of a queue, of an ordering key, of a row) is taken by the store where it reads: by the time the engine
decides, nobody else may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from localqueue._dataclass import dataclass, field
from localqueue._named_tuple import NamedTuple
from localqueue.ids import Mint
from localqueue.stores.engine.row import Row
from localqueue.stores.port import LeaseRequest, NewMessage, RecordWrite, StoredMessage
from localqueue.stores.rules import Attempt

Key = tuple[int, str]  # a queue and a dedupe or ordering key in it


@dataclass(slots=True)
class Wanted:
    """Rows that a decision needs. A store finds all of them in as few statements as it can.

    `keys` are messages by key, `holders` the live messages with these dedupe keys, `heads` the ready, delayed or
    inflight ones of these ordering keys, `behind` the first blocked one of each of these ordering keys whose key is
    greater than the number, and `dependents` the messages that wait for these, with the edges that say so. `newest` is
    the greatest key of the new messages that these heads are wanted for.
    """

    keys: set[int] = field(default_factory=set)
    holders: set[Key] = field(default_factory=set)
    heads: set[Key] = field(default_factory=set)
    behind: dict[Key, int] = field(default_factory=dict)
    dependents: set[int] = field(default_factory=set)
    newest: int = 0

    def __bool__(self) -> bool:
        return bool(self.keys or self.holders or self.heads or self.behind or self.dependents)


class Found(NamedTuple):
    """The rows that were wanted, in any order, perhaps some of them twice; edges as (upstream, dependent).

    `seen` are holders and heads that a claim or an ack may still change, because the store did not keep others from
    them: it is enough to know that they are there. None of them has outlived its time. `newest` is the greatest key of
    the blocked messages behind the wanted heads, or more, from a store that does not know that of a whole queue.
    """

    rows: Sequence[Row]
    edges: Sequence[tuple[int, int]] = ()
    seen: Sequence[Row] = ()
    newest: int = 0


class Run(NamedTuple):
    """A run, by whatever the store's rows know it by, and whether it takes no more messages."""

    id: Any
    cancelled: bool


class Insert(NamedTuple):
    """A message that is new. Its `past`, when it has one, comes with it: see `attempts_of`."""

    row: Row
    message: NewMessage


class Graph(NamedTuple):
    """A batch that is the beginning of a run: how many of the others each comes after, how many come after each, and
    the edges between their keys."""

    run: Any
    waiting_on: list[int]
    dependents: list[int]
    edges: list[tuple[int, int]]


class Batch(NamedTuple):
    """New messages with nothing but keys and times, and the key and the state of each. `queues` has their numbers,
    `columns` the messages by their fields, in the order of `NewMessage`; their ids are what the keys say."""

    keys: Sequence[int]
    states: Sequence[int]
    queues: Mapping[str, int]
    now: float
    columns: Sequence[Sequence[Any]]
    graph: Graph | None = None

    @property
    def messages(self) -> Iterator[NewMessage]:
        return (NewMessage(*row) for row in zip(*self.columns, strict=True))

    def inserts(self) -> Iterator[Insert]:
        """The same, one by one, for a store that has no shorter way to write them."""
        now, graph = self.now, self.graph
        for n, (key, state, one) in enumerate(zip(self.keys, self.states, self.messages, strict=True)):
            row = Row(
                key, self.queues[one.queue], state, one.priority, now, now + one.delay, 0,
                None if one.ttl is None else now + one.ttl,
                ordering_key=one.ordering_key,
                dedupe_key=one.dedupe_key,
            )  # fmt: skip
            if graph is not None:
                row.run, row.waiting_on, row.dependents = graph.run, graph.waiting_on[n], graph.dependents[n]
            yield Insert(row, one)


class Note(NamedTuple):
    """Something that happened to a message, for the journal. `told` says whether the caller is told as well: what the
    result of the call says is not. An enqueued message comes with `message`."""

    type: str
    row: Row
    attempt: int
    leased_by: str | None = None
    leased_at: float | None = None
    error: str | None = None  # JSON
    told: bool = True
    message: NewMessage | None = None


@dataclass(slots=True)
class RunChange:
    total: int = 0
    done: int = 0


@dataclass(slots=True)
class Writes:
    """What a decision changes. A store applies the parts in this order, each in as few statements as it can.

    `attempts` are entries of the histories of messages, numbered; one that makes a history longer than `HISTORY_LIMIT`
    pushes out the oldest. Updates say all that can change of a row. Deletes take the content, the lease and the history
    of a message with them. `removed` are deleted messages that were not acked, and why. `freed` are upstreams whose
    edges go, `forgotten` dependents whose edges go. Where there are any `removed`, the store forgets some of those with
    keys before `remembered_from`, at least twice as many as come.
    """

    inserts: list[Insert] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    attempts: list[tuple[Row, int, Attempt]] = field(default_factory=list)
    updates: dict[int, Row] = field(default_factory=dict)
    removed: dict[int, str] = field(default_factory=dict)
    remembered_from: int = 0
    deletes: dict[int, Row] = field(default_factory=dict)
    freed: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    runs: dict[Any, RunChange] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def any(self) -> bool:
        parts = (self.inserts, self.updates, self.deletes, self.edges, self.freed, self.runs, self.dropped, self.notes)
        return any(parts) or bool(self.removed)

    def run(self, run: Any) -> RunChange:
        return self.runs.setdefault(run, RunChange())


class KeyTaken(Exception):
    """A batch was not written: somebody has one of its ids or holds one of its dedupe keys."""


class Rows(Protocol):
    """A store's side of one commit."""

    #: Whether notes are wanted: the store keeps a journal and writes it by itself.
    journalled: bool
    #: Whether `write_batch` finds out by itself that a dedupe key is taken, so that nobody looks before.
    guards_dedupe_keys: bool
    #: whether a batch may be the beginning of a run
    writes_graphs: bool

    @property
    def ids(self) -> Mint: ...

    # queues, by name and by number
    def queue(self, name: str) -> int:
        """The number of a queue, made on first use."""

    def find_queue(self, name: str) -> int | None: ...
    def queue_name(self, queue: int) -> str: ...
    def subscription_version(self, topic: int) -> int: ...

    def newest(self, queues: Iterable[int]) -> int:
        """The greatest key that a message of these queues ever had; 0 from a store that does not keep it, because its
        commits do not wait for each other. It looks at the ordering keys instead (`Found.newest`)."""

    # rows
    def fetch(self, wanted: Wanted) -> Found: ...
    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        """Messages whose timer has passed, leases included, by the time it did."""

    def oldest(self, queue: int, limit: int) -> list[Row]:
        """Ready messages by the time they became available, whatever their priority."""

    def oldest_blocked(self, queue: int) -> Row | None:
        """The blocked message that was put first."""

    def load(self, queue: int, now: float, up_to: int) -> int:
        """Messages that count against capacity, due ones as what they have become; no more than `up_to` are counted."""

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        """Edges (upstream, dependent) of these dependents. Nobody else adds one to a stored message meanwhile."""

    def removed(self, keys: Iterable[int]) -> set[int]:
        """Those of these that were removed without being acked."""

    def stored(self, keys: Iterable[int]) -> dict[int, StoredMessage]:
        """Whole messages, as the port shows them."""

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        """Messages that left delivery for a state until then, by the time they did and by key, behind one of these."""

    def last_ended(self, queue: int, state: int) -> float:
        """When the last of the messages in a state left delivery for it, by whatever clock; 0 when there are none."""

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        """Messages of a queue in any state: by key behind this one, or in an order in which those that are removed
        are not looked at again. How many there are of other queues should not matter."""

    # runs
    def runs(self, names: Iterable[str]) -> Mapping[str, Run]:
        """Runs by name, made on first use. Nobody cancels them before this commit is done."""

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        """Have a run take no more messages; its live ones with a lower key, the last that was put first."""

    # writing
    def write(self, writes: Writes, now: float) -> None: ...
    def write_batch(self, batch: Batch) -> None:
        """Insert messages that nothing has happened to.

        A store that guards dedupe keys is handed a batch before anybody has looked who holds them; two messages of the
        batch may even have the same one. Where a key is taken it raises `KeyTaken`, with the whole batch undone, and
        the engine goes the ordinary way in the same transaction: it looks the holders up and decides one by one. A
        store that can not undo a part of a transaction raises an error of its own instead, which the engine lets pass,
        and does the work again in a new transaction, on rows that do not guard dedupe keys. Until then the unit has
        written nothing, but for queues that it made.
        """

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        """Set or delete records; their new versions, 0 of one that is gone."""

    def timers_settled(self, queue: int) -> None:
        """No timer of this queue has passed any more, for a store that keeps the time of the next one."""

    # operations
    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        """Have a queue be a subscriber of a topic, or not; whether that is new."""

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        """Pause a queue, or one worker on it; without a time, resume it."""

    def clear(self, queue: int) -> None:
        """Let a queue whose messages are all gone be as if it had never had one."""

    # claiming
    def paused(self, queue: int, worker: str | None) -> bool:
        """Whether the queue, or the worker on it, is handed no messages."""

    def claimable(self, queue: int, now: float) -> bool:
        """Whether there are ready messages and none of them has outlived its time, while other timers have passed."""

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        """Lease from the front of the line, with records of the ledger."""
