"""Several changes that happen together or not at all."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from localqueue.errors import IdTaken, QueueError
from localqueue.message import QueueMessage
from localqueue.queue.desk import limits_of, raise_all
from localqueue.queue.drafts import PutOptions, check_delay, check_is_list, id_of
from localqueue.stores.port import Action, Changes, Edge, NewMessage, RecordWrite, Settle

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_NO_ID_YET = ("",)


class PendingMessage:
    """A message that a transaction will store; its `id` and `message` exist once the transaction is committed."""

    __slots__ = ("_message",)

    def __init__(self) -> None:
        self._message: QueueMessage[Any] | None = None

    @property
    def message(self) -> QueueMessage[Any]:
        if self._message is None:
            raise QueueError("the transaction is not committed yet; use the pending message itself in after=")
        return self._message

    @property
    def id(self) -> str:
        return self.message.id


Reference = PendingMessage | QueueMessage[Any] | str


class Transaction:
    """Collects changes and commits them when the `with` block ends without an exception.

    A settle whose lease was lost raises `LeaseLost` and nothing of the transaction happens. A full queue raises
    `queue.Full`. Messages can come after other messages of the same transaction.
    """

    def __init__(self, queue: PersistentQueue[Any]) -> None:
        self._queue = queue
        self._puts: list[tuple[PersistentQueue[Any], PendingMessage, NewMessage, Any, list[Reference]]] = []
        self._edges: list[tuple[Reference, Reference]] = []
        self._settles: list[tuple[PersistentQueue[Any], Settle, QueueMessage[Any] | str]] = []
        self._records: list[RecordWrite] = []
        self._done = False

    def put(
        self, item: Any, *, to: PersistentQueue[Any] | None = None, **options: Unpack[PutOptions]
    ) -> PendingMessage:
        """Store an item in this queue, or in the queue `to` of the same store."""
        self._require_open()
        queue = self._same_store(to)
        queue.desk.check_stores_itself()
        after = options.pop("after", ())
        check_is_list(after)
        draft = queue.desk.compose(item, ids=_NO_ID_YET, **options)
        pending = PendingMessage()
        self._puts.append((queue, pending, draft, item, list(after)))
        return pending

    def ack(
        self, message: QueueMessage[Any] | str, *, of: PersistentQueue[Any] | None = None, result: Any = None
    ) -> None:
        """Remove a message for good; with `keep_results` its `result` is kept."""
        self._settle(message, "ack", of, result=result)

    def release(
        self,
        message: QueueMessage[Any] | str,
        *,
        delay: float = 0.0,
        error: object = None,
        of: PersistentQueue[Any] | None = None,
    ) -> None:
        self._settle(message, "release", of, check_delay(delay), error)

    def dead_letter(
        self, message: QueueMessage[Any] | str, *, error: object = None, of: PersistentQueue[Any] | None = None
    ) -> None:
        self._settle(message, "dead-letter", of, 0.0, error)

    def add_dependency(self, dependent: Reference, upstream: Reference) -> None:
        """Make a waiting message also wait for `upstream`."""
        self._require_open()
        self._edges.append((upstream, dependent))

    def commit(self) -> None:
        """Apply everything; called by the `with` block."""
        self._require_open()
        self._done = True
        while True:
            changes, drafts = self._changes()
            try:
                committed = self._queue.desk.commit(
                    changes,
                    [message for _, _, message in self._settles],
                    [one[0].desk for one in self._puts] + [one[0].desk for one in self._settles],
                )
                break
            except IdTaken:
                continue
        for queue, _, message in self._settles:
            queue.desk.unfinished.forget(message)
        failures: list[Exception] = []
        for (queue, pending, _, item, _), draft, enqueued in zip(self._puts, drafts, committed.enqueued, strict=True):
            pending._message = queue.desk.stored(draft, enqueued, item)
            try:
                queue.desk.announce(pending._message, enqueued.outcome)
            except Exception as error:
                failures.append(error)
        raise_all(failures)

    def _changes(self) -> tuple[Changes, list[NewMessage]]:
        ids = self._queue.store.mint(len(self._puts)) if self._puts else []
        of_pending = {pending: new_id for (_, pending, _, _, _), new_id in zip(self._puts, ids, strict=True)}

        def resolve(reference: Reference) -> str:
            if isinstance(reference, PendingMessage):
                return of_pending.get(reference) or reference.id
            return id_of(reference)

        drafts = [
            draft._replace(id=new_id, after=tuple(map(resolve, after)))
            for (_, _, draft, _, after), new_id in zip(self._puts, ids, strict=True)
        ]
        changes = Changes(
            enqueue=drafts,
            edges=[Edge(resolve(upstream), resolve(dependent)) for upstream, dependent in self._edges],
            settle=[settle for _, settle, _ in self._settles],
            records=self._records,
            limits=limits_of(queue.desk for queue, *_ in self._puts),
            strict=True,
        )
        return changes, drafts

    def _settle(
        self,
        message: QueueMessage[Any] | str,
        action: Action,
        of: PersistentQueue[Any] | None,
        delay: float = 0.0,
        error: object = None,
        result: Any = None,
    ) -> None:
        self._require_open()
        queue = self._same_store(of)
        settle = queue.desk.settlement(message, action, delay=delay, error=error)
        kept = queue.desk.endings.given(result) if action == "ack" else None
        if queue.desk.endings.keep is not None:
            self._records += queue.desk.endings.of(settle, message, kept)
        self._settles.append((queue, settle, message))

    def _same_store(self, queue: PersistentQueue[Any] | None) -> PersistentQueue[Any]:
        if queue is None:
            return self._queue
        self._queue.desk.check_shares_store(queue.desk)
        return queue

    def _require_open(self) -> None:
        if self._done:
            raise QueueError("this transaction has ended; start another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        self._done = True
