"""The durable claims of one consumer on one queue.

A claim is a numbered batch of leased messages. Its number is the offset that Spark writes into its checkpoint, and its
messages are kept as records of the store until the claim after it is settled. So whatever becomes of the driver between
two steps, the next one finds either a claim that can be read again, the same to the last row, or none at all:

1. lease messages;
2. write them as claim n, in one commit with the consumer's record;
3. Spark runs the batch and commits it to its log;
4. ack the messages and note that n is settled, in one commit. Those with a verdict become dead letters in it.

Leases that no claim knows of (a death between 1 and 2) are given back when the consumer is taken over. The messages of
the next claim may be leased before the last one is settled, so there are at most two claims that are not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from localqueue.errors import QueueError
from localqueue.spark.streams import claim_blob as blob
from localqueue.spark.streams.claim_draft import Draft
from localqueue.spark.streams.claim_lease import (
    Held,
    give_back,
    held_by,
    leases,
    returned,
    settle_held,
    settled,
    take_up_to,
    without_lost,
)
from localqueue.spark.streams.consumer_record import (
    CLAIMS,
    VERDICTS,
    Consumer,
    ConsumerRecord,
    ConsumerTakenOver,
    OpenClaim,
    chunk_keys,
    worker_name,
)
from localqueue.spark.streams.data_loss import DataLoss
from localqueue.spark.streams.verdict import (
    Error,
    Misfits,
    Verdicts,
    corrupt,
    read_verdicts,
    undisturbed,
    worn_out,
)
from localqueue.stores.port import (
    Committed,
    Lease,
    LeaseRequest,
    QueueStore,
    RecordWrite,
)

_log = logging.getLogger(__name__)


class Chunk(NamedTuple):
    """A chunk of a claim as it is to be read: its key, and the messages that are left out."""

    key: str
    condemned: frozenset[str]


class ClaimsLost(QueueError, RuntimeError):
    """A checkpoint asks for claims that its consumer does not have."""


def read_chunk(store: QueueStore, key: str) -> bytes | None:
    """The bytes of one chunk of a claim; None when the claims behind it were settled."""
    found = store.record(CLAIMS, key)
    return None if found is None else found.value


class Claims:
    """Claims, settles and keeps. Everything is in the store; what is remembered here only saves reading it again.

    The first step takes the consumer over, renews the leases of its open claim and gives back those of none.
    `chunk_rows` says how many messages of a claim of some size go into one chunk, `misfits` which of them become dead
    letters instead.
    """

    def __init__(
        self,
        store: QueueStore,
        queue: str,
        consumer: str,
        *,
        timeout: float,
        max_attempts: int | None = None,
        fail_on_data_loss: bool = True,
        chunk_rows: Callable[[int], int] = lambda size: size,
        misfits: Misfits | None = None,
        broker: bool = False,
    ) -> None:
        self._store = store
        self._queue = queue
        self._shown = f"consumer {consumer!r} of queue {queue!r}"
        self._record = ConsumerRecord(store, queue, consumer, broker=broker)
        self._request = LeaseRequest(queue, 0, timeout, worker_name(consumer), max_attempts)
        self._chunk_rows = chunk_rows
        self._misfits = misfits
        self._owned = False
        self._loss = DataLoss(ClaimsLost, fails=fail_on_data_loss)
        self._open: dict[int, list[Held]] = {}
        self._judged: set[int] = set()
        self._plain: set[int] = set()
        self._prepared: list[Held] = []

    @property
    def settled(self) -> int:
        """The last claim whose messages were acked."""
        self._own()
        return self._record.state.settled

    @property
    def held_ahead(self) -> int:
        """Messages that are held and in no claim yet."""
        return len(self._prepared)

    @property
    def followers(self) -> int:
        """Messages that are held though the store counts them as blocked."""
        return sum(one.head is not None for held in [*self._open.values(), self._prepared] for one in held)

    @property
    def claimed(self) -> int:
        """The last claim there is."""
        self._own()
        return self._record.state.claimed

    def settle(self, upto: int) -> None:
        """Ack the messages of the claims up to this one, all in one commit; those already settled are none.

        A message whose lease was lost is left to whoever has it now. The claim itself can still be read.
        """
        self._own(upto)
        state = self._record.state
        if upto == state.settled:
            return
        if upto < state.settled:
            self._lost(f"the checkpoint is at claim {upto} and claim {state.settled} is settled")
        elif upto > state.claimed:
            self._lost(f"the checkpoint is at claim {upto} and the last one there is is {state.claimed}")
            self._number_from(upto)
        else:
            self._settle(upto)

    def sets_free(self, upto: int) -> bool:
        """Whether messages may come free by settling: those behind an ordering key, or what a broker does not hand out
        before. Otherwise the next ones may be prepared at the same time, from another thread."""
        return self._record.state.broker or not self._plain.issuperset(range(self._record.state.settled + 1, upto + 1))

    def claim(self, limit: int | None) -> int:
        """Lease up to `limit` messages and make them the next claim; how many were leased.

        Those that do not fit become dead letters in the same commit; when none fits there is no claim.
        """
        draft = self.prepare(limit)
        self.write(draft)
        return len(draft.held)

    def prepare(self, limit: int | None) -> Draft:
        """Lease up to `limit` messages for a claim that `write` makes of them."""
        self._own()
        self._record.verify()
        taken = take_up_to(self._store, self._request, limit)
        draft = Draft.of(taken, self._misfits, self._chunk_rows)
        self._prepared = draft.held
        return draft

    def write(self, draft: Draft) -> None:
        """Make the next claim of what was prepared; when nothing of it fits they are only dead letters."""
        state = self._record.state
        try:
            if draft.blobs:
                one = OpenClaim(rows=len(draft.held), at=self._store.now(), followers=draft.followers)
                state = state.opening(one, len(draft.blobs))
                claim = state.claimed
                self._record.commit(state, records=draft.writes(chunk_keys(self._record.key, claim, len(draft.blobs))))
                self._open[claim] = draft.held
                self._judged.add(claim)
                if not draft.keyed:
                    self._plain.add(claim)
            elif draft.held:
                self._settle_held(draft.held, lambda: (state, draft.errors, []))
        except ConsumerTakenOver:
            self.give_back(draft)
            raise
        self._prepared = []

    def give_back(self, draft: Draft) -> None:
        """Return what was prepared to the queue."""
        give_back(self._store, self._queue, draft.held)
        self._prepared = []

    def chunks(self, start: int, end: int) -> list[Chunk]:
        """The chunks of the claims behind `start` up to `end`, for `read_chunk`.

        A claim that an earlier driver made is judged by the `misfits` of this one, and the verdicts are written, before
        it is read. Nothing is ever left out of it that does not become a dead letter when it is settled.
        """
        self._own()
        self._record.verify()
        state, first = self._record.state, start + 1
        missing = [claim for claim in range(first, end + 1) if claim not in state.chunks]
        if missing:
            self._lost(f"claim {missing[0]} is wanted and can be read no more, the last settled one is {state.settled}")
            first = max(start, state.settled) + 1
        for claim in range(max(first, state.settled + 1), end + 1):
            self._judge(claim)
        keys = [key for claim in range(first, end + 1) for key in self._keys(claim)]
        return [Chunk(key, frozenset(one.errors)) for key, one in read_verdicts(self._store, keys).items()]

    def leases(self) -> list[Lease]:
        """The leases that are to be kept, for one who does it from another thread."""
        claims = [*list(self._open.values()), self._prepared]
        return [lease for claim in claims for lease in leases(self._queue, claim)]

    def live(self) -> None:
        """Tell that the driver lives, also from another thread."""
        if self._owned:
            self._record.live()

    # taking over

    def _own(self, done: int | None = None) -> None:
        """Take the consumer over. What is `done` is settled before the leases of the rest are renewed."""
        if self._owned:
            return
        self._record.take_over()
        self._owned = True
        if done is not None and self._record.state.settled < done <= self._record.state.claimed:
            self._settle(done)
        for claim in range(self._record.state.settled + 1, self._record.state.claimed + 1):
            self._renew(claim)
        self._release_debris()

    def _renew(self, claim: int) -> None:
        """Renew the leases of a claim, and take out of it the messages that somebody else has by now."""
        held = self._held(claim)
        still = without_lost(self._store, self._queue, held, self._request.timeout)
        if len(still) == len(held):
            return
        _log.warning("%s: %d of %d leases of claim %d were lost", self._shown, len(held) - len(still), len(held), claim)
        lost = {one.id for one in held} - {one.id for one in still}
        writes = [RecordWrite(CLAIMS, key, blob.without(self._chunk(key), lost)) for key in self._keys(claim)]
        self._record.commit(self._record.state, records=writes)
        self._open[claim] = still

    def _release_debris(self) -> None:
        known = {one for claim in self._open.values() for one in claim}
        for page in held_by(self._store, self._queue, self._request.leased_by or ""):
            give_back(self._store, self._queue, [one for one in page if one not in known])

    # judging and settling

    def _judge(self, claim: int) -> None:
        """Write down that a claim of an earlier driver is run once more, and the verdicts of this one on it."""
        if claim in self._judged:
            return
        state = self._record.state.running(claim)
        errors = {key: self._errors(key, state.open[claim].runs) for key in self._keys(claim)}

        def write() -> None:
            found = read_verdicts(self._store, errors)
            new = [one.adding(errors[key]) for key, one in found.items() if one.lacks(errors[key])]
            self._record.commit(state, records=new)

        undisturbed(write)
        self._judged.add(claim)

    def _errors(self, key: str, run: int) -> dict[str, Error]:
        """The messages of a chunk that do not fit, or were in too many runs already."""
        most = self._request.max_attempts
        if self._misfits is None and most is None:
            return {}
        messages = blob.decode(self._chunk(key), self._queue)
        errors = {} if most is None else worn_out(messages, run, most)
        return errors if self._misfits is None else errors | corrupt(self._misfits(messages))

    def _settle(self, upto: int) -> None:
        state = self._record.state
        claims = range(state.settled + 1, upto + 1)
        done = [one for claim in claims for one in self._held(claim)]
        after = state.settling(upto)
        gone = state.chunks.keys() - after.chunks

        def what() -> tuple[Consumer, Mapping[str, Error], list[RecordWrite]]:
            verdicts = read_verdicts(self._store, [key for claim in claims for key in self._keys(claim)])
            errors = {one: error for found in verdicts.values() for one, error in found.errors.items()}
            closed = [one.closing() for key, one in verdicts.items() if key in self._keys(upto)]
            return after, errors, [*closed, *self._forget(gone, verdicts)]

        lost = self._settle_held(done, what)
        self._open = {claim: held for claim, held in self._open.items() if claim > upto}
        self._plain = {claim for claim in self._plain if claim > upto}
        if lost:
            _log.warning("%s: %d of %d leases of claim %d were lost before it was settled, and the messages are "
                         "delivered again", self._shown, lost, len(done), upto)  # fmt: skip

    def _settle_held(
        self, held: Sequence[Held], what: Callable[[], tuple[Consumer, Mapping[str, Error], list[RecordWrite]]]
    ) -> int:
        def commit(still: Sequence[Held], strict: bool) -> Committed:
            state, errors, records = what()
            return self._record.commit(
                state, settle=settled(self._queue, still, errors), records=records, strict=strict
            )

        return undisturbed(lambda: settle_held(self._store, self._queue, held, commit, self._request.timeout))

    def _number_from(self, claim: int) -> None:
        """Go on from a number that is not ours, giving back what is open."""
        state = self._record.state
        held = [one for open_claim in range(state.settled + 1, state.claimed + 1) for one in self._held(open_claim)]
        after = replace(state, settled=claim, claimed=claim, chunks={}, open={})
        self._record.commit(after, settle=returned(self._queue, held), records=self._forget(state.chunks))
        self._open = {}

    def _lost(self, what: str) -> None:
        text = (
            f"{self._shown}: {what}. The checkpoint was copied or restored, belongs to another consumer, or the store "
            "was restored: give the query a consumer name and a checkpoint of its own, or go on without what is lost "
            'by option("failOnDataLoss", "false")'
        )
        self._loss.tell(what, text)

    # records

    def _held(self, claim: int) -> list[Held]:
        if claim not in self._open:
            self._open[claim] = [one for key in self._keys(claim) for one in blob.held(self._chunk(key))]
        return self._open[claim]

    def _chunk(self, key: str) -> bytes:
        found = read_chunk(self._store, key)
        if found is None:
            raise ClaimsLost(f"{self._shown}: record {key!r} of kind {CLAIMS!r} was removed")
        return found

    def _forget(self, claims: Iterable[int], read: Mapping[str, Verdicts] = MappingProxyType({})) -> list[RecordWrite]:
        keys = [key for claim in claims for key in self._keys(claim)]
        chunks = [RecordWrite(CLAIMS, key, None) for key in keys]
        return chunks + [RecordWrite(VERDICTS, key, None, read[key].version if key in read else None) for key in keys]

    def _keys(self, claim: int) -> list[str]:
        return chunk_keys(self._record.key, claim, self._record.state.chunks.get(claim, 0))
