"""The store port: what a queue asks of the place its messages live in.

A store has three write verbs. `commit` applies changes that happen together or not at all, `lease` claims messages,
`renew` keeps them. Everything a queue promises (fenced settling, exact capacity, atomic fan-out, dependencies between
messages, effectively-once) is a question of what goes into one commit, so it is decided inside the store and the code
above is plain Python.

Rules every store keeps, and `localqueue.contracts.StoreContract` checks:

- A commit is applied in this order: enqueue, edges, settle, records, lease. It is all or nothing. Only its lease may
  be a transaction of its own that follows the rest: messages that a lost caller would hold until their leases run out.
- A settle with a token changes the message only while that lease is current. With `strict` a stale one raises
  `LeaseLost` and rejects the commit whole; otherwise it is skipped and reported as False. A settle without a token is
  an operator's override.
- Capacity is checked inside the transaction that inserts, against ready and blocked messages.
- Ids come from `mint`, so messages of one commit can refer to each other. A store that finds an id in use raises
  `IdTaken` and stores nothing.
- Order is the order of the commits: for plain messages, for those of an ordering key, and for `scan`. So the messages
  of a commit get new ids when one of them was given an id that is not newer than what its queue has had, and `Enqueued`
  says which; with `keep_ids` the commit raises `IdTaken` instead. A store whose commits do not wait for each
  other looks at the ordering keys alone, and mints ids by the clock of its server.
- A store is bound to one namespace and sees nothing of any other.
- No driver object (cursor, pipeline, session) appears in any signature. The one exception is a capability of its own,
  `JoinsTransactions`, because there the driver's connection is what the user brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from localqueue._dataclass import dataclass, field
from localqueue._named_tuple import NamedTuple
from localqueue.events.journal import JournalEvent
from localqueue.message import QueueStats, RunStats

if TYPE_CHECKING:
    from asyncio import Future

Payload = str | bytes
Action = Literal["ack", "release", "dead-letter", "cancel"]
Outcome = Literal["stored", "duplicate", "dropped", "diverted"]
Overflow = Literal["reject", "drop-newest", "drop-oldest", "overflow-queue"]

READY = "ready"
DELAYED = "delayed"
INFLIGHT = "inflight"
WAITING = "waiting"
BLOCKED = "blocked"
DEAD = "dead"
EXPIRED = "expired"
CANCELLED = "cancelled"

#: The states of a stored message. Those before `dead` are live: they can still be delivered.
STATES: tuple[str, ...] = (READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED)

#: How many finished attempts a message remembers, so that a retry never gets dearer.
HISTORY_LIMIT = 20


class NewMessage(NamedTuple):
    """A message to enqueue. `after` names messages by id, of this commit or stored earlier.

    `past` is the message as another store held it. Then it keeps its times, its attempts and its history instead of
    beginning anew (`delay` and `ttl` are not looked at), and one that had left delivery is stored as such. Where a live
    one lands is decided as for any other message; a lease it had there is not carried over.
    """

    id: str
    queue: str
    payload: Payload
    codec: str | None = None
    delay: float = 0.0
    priority: int = 0
    dedupe_key: str | None = None
    ordering_key: str | None = None
    ttl: float | None = None
    headers: str | None = None
    run_id: str | None = None
    after: tuple[str, ...] = ()
    past: StoredMessage | None = None


class Page(NamedTuple):
    """New messages by column: `payload` has one for each, and so has every option that is not None. `queue` is the name
    of all, or one for each; `past` is what `NewMessage` says."""

    payload: Sequence[Payload]
    queue: str | Sequence[str]
    codec: str | None = None
    delay: Sequence[float] | None = None
    priority: Sequence[int] | None = None
    dedupe_key: Sequence[str | None] | None = None
    ordering_key: Sequence[str | None] | None = None
    headers: Sequence[str | None] | None = None
    run_id: Sequence[str | None] | None = None
    past: Sequence[StoredMessage | None] | None = None

    @property
    def queues(self) -> Sequence[str]:
        """The queue of each."""
        return [self.queue] * len(self.payload) if isinstance(self.queue, str) else self.queue

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to look up for any of them."""
        return self.dedupe_key is None and self.ordering_key is None and self.run_id is None and self.past is None

    def columns(self, ids: Sequence[str]) -> list[Sequence[Any]]:
        """The fields of the same as `NewMessage`, in their order."""
        count = len(self.payload)
        nothing: Sequence[None] = [None] * count
        return [
            ids, self.queues, self.payload, [self.codec] * count, self.delay or [0.0] * count,
            self.priority or [0] * count, self.dedupe_key or nothing, self.ordering_key or nothing, nothing,
            self.headers or nothing, self.run_id or nothing, [()] * count, self.past or nothing,
        ]  # fmt: skip

    def messages(self, ids: Sequence[str]) -> list[NewMessage]:
        return [NewMessage(*row) for row in zip(*self.columns(ids), strict=True)]


class Put(NamedTuple):
    """What became of the messages of pages, and when: how many were stored (those that an overflow queue took
    included), how many were duplicates of a live message or of one before them, and how many a full queue dropped."""

    at: float
    stored: int
    duplicates: int = 0
    dropped: int = 0


class Settle(NamedTuple):
    """What became of a message. `token` is the attempt number of the lease; None overrides any lease.

    A release of a message that was delivered `max_attempts` times turns into a dead letter. With `forgive` it is the
    return of a message that no handler has seen: the delivery does not count and the message keeps its place.

    `error` is an explanation and never a reason to refuse: what is no JSON becomes text, and of an error that is longer
    than `kept_error.ERROR_LIMIT` as JSON the beginning and end of its texts are kept.
    """

    queue: str
    id: str
    action: Action
    token: int | None = None
    delay: float = 0.0
    error: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    forgive: bool = False


class Edge(NamedTuple):
    """Makes the waiting message `dependent` also wait for `upstream`."""

    upstream: str
    dependent: str


class RecordWrite(NamedTuple):
    """Sets (or with value None deletes) one record. `expect` is the version it must be in; 0 means absent.

    With `tell`, those who wait for the record (`listen_records`) are woken when the commit is done. It costs a word to
    the other processes, so a record that nobody waits for is written without.
    """

    kind: str
    key: str
    value: bytes | None
    expect: int | None = None
    tell: bool = False


class Record(NamedTuple):
    kind: str
    key: str
    value: bytes
    version: int
    updated_at: float


class Limit(NamedTuple):
    """Capacity of one queue and what happens to a message that finds it full."""

    maxsize: int
    overflow: Overflow = "reject"
    overflow_queue: str | None = None


class LeaseRequest(NamedTuple):
    """Claim up to `limit` ready messages. With `consume` they are acked in the same transaction.

    A message whose lease expired after `max_attempts` deliveries becomes a dead letter instead of being claimed again.
    A worker that counts its leases itself, and tells them with its heartbeat, says so: not `counted` is cheaper. With
    `ledger`, a message that has a dedupe key comes with the record of that kind and the key `<queue>:<dedupe key>`.
    """

    queue: str
    limit: int = 1
    timeout: float = 30.0
    leased_by: str | None = None
    max_attempts: int | None = None
    consume: bool = False
    counted: bool = True
    ledger: str | None = None


class Lease(NamedTuple):
    queue: str
    id: str
    token: int


class StoredMessage(NamedTuple):
    """A message as the store holds it: payload still encoded, `headers` as JSON text."""

    id: str
    queue: str
    state: str
    payload: Payload
    codec: str | None
    priority: int
    attempts: int
    created_at: float
    available_at: float
    leased_until: float | None = None
    leased_by: str | None = None
    last_error: dict[str, Any] | None = None
    failed_at: float | None = None
    dedupe_key: str | None = None
    ordering_key: str | None = None
    expires_at: float | None = None
    run_id: str | None = None
    headers: str | None = None
    waiting_on: int = 0
    history: tuple[dict[str, Any], ...] = ()
    forgiven: int = 0
    record: Record | None = None


@dataclass(slots=True)
class Changes:
    """What one commit changes. `limits` and `topics` are conditions: capacity by queue, and the subscription version
    a topic must still have. With `keep_ids` the messages are stored under the ids they were given, or not at all."""

    enqueue: Sequence[NewMessage] = ()
    edges: Sequence[Edge] = ()
    settle: Sequence[Settle] = ()
    records: Sequence[RecordWrite] = ()
    lease: LeaseRequest | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    strict: bool = True
    keep_ids: bool = False


class Enqueued(NamedTuple):
    """What became of one `NewMessage`: the state it landed in and the store's time `at` which it was created.

    For a duplicate, `existing` is the message that holds the dedupe key. `id` is the id of the message where that is
    not the one it was given.
    """

    outcome: Outcome
    state: str
    at: float
    existing: StoredMessage | None = None
    id: str | None = None


@dataclass(slots=True)
class Committed:
    """The result of a commit, in the order of its changes. `versions` are those of the records it wrote, 0 of one that
    it deleted."""

    enqueued: list[Enqueued] = field(default_factory=list)
    settled: list[bool] = field(default_factory=list)
    leased: list[StoredMessage] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)


class Transition(NamedTuple):
    """A change of a message that the result of a call does not tell: what a release, a timer or an operator made of it.

    `type` is one of `localqueue.events.JOURNAL_TYPES`.
    """

    type: str
    queue: str
    id: str
    at: float
    attempt: int
    leased_by: str | None = None
    leased_at: float | None = None
    error: dict[str, Any] | None = None


class Subscriptions(NamedTuple):
    version: int
    subscribers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of an integrity check: every problem as one sentence."""

    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


class Compacted(NamedTuple):
    """How many bytes a store took before and after it gave back what it did not need, where that can be known."""

    before: int | None = None
    after: int | None = None


class Waiter(Protocol):
    """Blocks until what it listens for may have happened since it was made or last returned True."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def heard(self, timeout: float | None = None) -> bool:
        """As `wait`, for a caller who looks by himself next: also True when something was said that may be nothing."""

    def interrupt(self) -> None:
        """End the wait that runs, or the next one, as if its time were up. Called from any thread."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class BellWaiter(Waiter, Protocol):
    """A waiter for those who may not block, which all stores of this package have. One without `ring` is looked at
    again and again by them."""

    def look(self) -> tuple[bool, float]:
        """Whether it may have happened, and in how many seconds to look again at the latest. Does not wait."""

    def ring(self, bell: Callable[[], None]) -> None:
        """Call `bell`, from any thread, when it is time to look, until the waiter is closed."""


R = TypeVar("R")


class OffLoop(Protocol):
    """Has work that may block done where it holds up no event loop."""

    def __call__(self, work: Callable[[], R], /) -> Future[R]: ...


class AsyncCalls(Protocol):
    """The everyday calls of a store on an event loop, without a thread.

    Each is under way when it returns and ends by itself: cancelling its future stops nothing, and what was leased for
    a future that is cancelled is leased. So whoever must know waits for it. They may be made on their loop alone.
    """

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> Future[tuple[str, float]]: ...
    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None
    ) -> Future[tuple[Sequence[str], float]]: ...
    def lease(self, request: LeaseRequest) -> Future[list[StoredMessage]]: ...
    def ack_one(self, queue: str, message_id: str, token: int) -> Future[bool]: ...
    def renew(self, leases: Sequence[Lease], *, timeout: float) -> Future[list[float | None]]: ...
    def commit(self, changes: Changes) -> Future[Committed]: ...


@runtime_checkable
class CallsOnLoop(Protocol):
    """A store that can be called on an event loop."""

    def async_calls(self, off: OffLoop) -> AsyncCalls | None:
        """The calls for the loop that runs; None where this store, or this kind of loop, has none.

        What is not everyday in them (a new connection, a longer way, an answer that has to be waited for again) is done
        by `off`.
        """


class QueueStore(Protocol):
    """Protocol for custom queue stores. Times are seconds since the epoch on the store's own clock."""

    @property
    def namespace(self) -> str: ...
    @property
    def url(self) -> str:
        """Where the store is, without any password."""

    def mint(self, count: int = 1) -> list[str]:
        """New message ids in ascending order."""

    def now(self) -> float: ...

    # the three write verbs
    def commit(self, changes: Changes) -> Committed: ...
    def lease(self, request: LeaseRequest) -> list[StoredMessage]: ...
    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        """New expiry of each lease that is still held, None for the others."""

    # the same for plain messages, which a store can do with less ceremony
    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        """Commit one new message without options; its id and the time it was created."""

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        """Commit new messages without options, and records with them, all or none.

        Returns the ids in order and the time they were created.
        """

    def put_pages(
        self,
        pages: Iterable[Page],
        *,
        records: Sequence[RecordWrite] = (),
        limits: Mapping[str, Limit] | None = None,
        topics: Mapping[str, int] | None = None,
        receipt: tuple[str, str] | None = None,
    ) -> Put:
        """Commit new messages page by page, in their order, and records before them, all or none.

        It decides what a `commit` of all of them would. A store that can holds one page at a time in memory, and what
        makes the pages may read records of the same store meanwhile, as they were before this. `pages` is gone through
        again when the transaction has to begin anew, so it is a list, or an object with an `__iter__` of its own, and
        no iterator. `receipt` is the kind and key of a record that is written with them and says where they are: see
        `stores.receipts`.
        """

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        """Commit one ack; False when the lease is not current."""

    # reads; none of them changes anything
    def get(self, queue: str, message_id: str) -> StoredMessage | None: ...
    def qsize(self, queue: str) -> int: ...
    def load(self, queue: str) -> int:
        """Messages that count against capacity: ready and blocked."""

    def stats(self, queue: str) -> QueueStats: ...
    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """Messages by ascending id, or those of one state that left delivery by the time they left it.

        `after` continues behind that message. `until` is the last id that is wanted; not with a state that has left
        delivery.
        """

    def splits(self, queue: str, parts: int) -> list[str]:
        """At most `parts` ascending ids, each the last of one of about equal ranges of the queue's messages.

        The last one is the newest message, so a walk up to it has an end while others put.
        """

    def queues(self) -> list[str]: ...
    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        """The ids of the runs, ascending."""

    def run(self, run_id: str) -> RunStats | None: ...
    def run_messages(
        self, run_id: str, *, after: str | None = None, limit: int | None = None
    ) -> list[StoredMessage]: ...
    def upstream(self, queue: str, message_id: str) -> list[str]:
        """Ids of the messages this one still waits for."""

    def record(self, kind: str, key: str) -> Record | None: ...
    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]: ...
    def subscriptions(self, topic: str) -> Subscriptions: ...

    # the journal: off until it is enabled, for this namespace and for every process that uses the store
    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        """From now on every change of a message appends an entry, in the same transaction.

        The journal keeps itself to what is younger than `keep_seconds`, and to about `keep_events`, as it is written.
        """

    def disable_journal(self) -> None:
        """Append no more; what was written stays until it is pruned."""

    def journal_enabled(self) -> bool: ...
    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        """Entries behind `after` in the order of the commits, of one queue or of all."""

    def journal_span(self) -> tuple[int, int]:
        """The numbers of the first entry that is kept and of the last that was written; `(n + 1, n)` when none is kept.

        Both only grow. What is at or below the last is committed, and nothing will be written there any more.
        """

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        """Remove entries that are at least `older_than` seconds old, and up to the number `through` when it is given.

        Their numbers are not used again.
        """

    def observe(self) -> AbstractContextManager[list[Transition]]:
        """Collects, after each commit of a call that this thread makes in the block, the transitions it caused.

        Those are releases, dead letters, expiries, cancellations, requeues and removals; puts, leases, renewals and
        acks are what the calls themselves return.
        """

    # operations
    def subscribe(self, topic: str, subscriber: str) -> bool: ...
    def unsubscribe(self, topic: str, subscriber: str) -> bool: ...
    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        """Return dead, expired or cancelled messages to delivery with a fresh attempt budget; None means all dead.

        With ids, a message whose dedupe key is held by a live one raises `DedupeKeyInUse`; without, it stays dead.
        """

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        """Remove (or count) messages that left delivery at least `older_than` seconds ago."""

    def purge(self, queue: str) -> int:
        """Remove every message of a queue, with its dedupe keys and worker records."""

    def cancel_run(self, run_id: str) -> int:
        """Cancel all live messages of a run, inflight ones too: their leases are lost. New ones are refused."""

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        """Hand out no message of the queue, to anybody or to the one worker, until it is resumed."""

    def resume(self, queue: str, *, worker: str | None = None) -> None: ...
    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        """Whether the queue, or the one worker on it, was paused; a worker is also not served by a paused queue."""

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        """Note that a worker is alive, and `leases` that were not counted when they were taken."""

    def backup(self, path: str) -> None:
        """Write a verified copy while the store is in use; the copy appears under `path` whole or not at all."""

    def compact(self) -> Compacted:
        """Give space that is free inside of the store back to the system, as far as the store can. Nothing that can be
        seen changes."""

    def check(self) -> CheckReport: ...
    def close(self) -> None: ...

    # wake
    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        """Wakes when one of the queues may have a message to lease, for anybody or for this worker."""

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        """Wakes when all of the queues may be below their limits."""

    def listen_run(self, run_id: str) -> Waiter:
        """Wakes when something of the run may have changed."""

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        """Wakes when one of these records may have been written or deleted.

        At once when it was done with `tell`; what was written without is noticed from time to time.
        """


@runtime_checkable
class JoinsTransactions(Protocol):
    """A store that can also commit inside a transaction of the user, which then decides whether it happened."""

    def commit_within(self, connection: Any, changes: Changes) -> Committed:
        """Apply changes in the open transaction of a connection to the same database.

        What it raises leaves that transaction as it was. Nothing is visible to others, and nobody is woken, before the
        user commits.
        """


class OpenedStore(QueueStore, Protocol):
    """A store of this package, which is closed at the end of a `with` block."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
