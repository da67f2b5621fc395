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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from localqueue.errors import QueueError
from localqueue.spark.streams import claim_blob as blob
from localqueue.spark.streams.claim_lease import Held, give_back, held_by, lease_up_to, returned, settled
from localqueue.spark.streams.consumer_record import CLAIMS, ConsumerRecord, ConsumerTakenOver, chunk_keys
from localqueue.spark.streams.data_loss import DataLoss
from localqueue.spark.streams.verdict import VERDICTS, Error, Misfits, Verdicts, corrupt, read_verdicts, undisturbed
from localqueue.stores.port import (
    Committed,
    Lease,
    LeaseRequest,
    QueueStore,
    RecordWrite,
    Settle,
)

_log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """Leased messages that are not a claim yet: those that fit as chunks, the others as dead letters."""

    leases: list[Held]
    fit: list[Held]
    blobs: list[bytes]
    dead: list[Settle]


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
    ) -> None:
        self._store = store
        self._queue = queue
        self._shown = f"consumer {consumer!r} of queue {queue!r}"
        self._record = ConsumerRecord(store, queue, consumer)
        self._request = LeaseRequest(queue, 0, timeout, f"spark:{consumer}", max_attempts)
        self._chunk_rows = chunk_rows
        self._misfits = misfits
        self._owned = False
        self._loss = DataLoss(ClaimsLost, fails=fail_on_data_loss)
        self._open: dict[int, list[Held]] = {}
        self._judged: set[int] = set()
        self._prepared: list[Held] = []

    @property
    def settled(self) -> int:
        """The last claim whose messages were acked."""
        self._own()
        return self._record.state.settled

    @property
    def held_ahead(self) -> int:
        """Messages that are leased and in no claim yet."""
        return len(self._prepared)

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

    def claim(self, limit: int | None) -> int:
        """Lease up to `limit` messages and make them the next claim; how many were leased.

        Those that do not fit become dead letters in the same commit; when none fits there is no claim.
        """
        prepared = self.prepare(limit)
        self.write(prepared)
        return len(prepared.leases)

    def prepare(self, limit: int | None) -> Prepared:
        """Lease up to `limit` messages for a claim that `write` makes of them."""
        self._own()
        self._record.verify()
        leased = lease_up_to(self._store, self._request, limit)
        self._prepared = [(one.id, one.attempts) for one in leased]
        unfit = {} if self._misfits is None else corrupt(self._misfits(leased))
        fit = [one for one in leased if one.id not in unfit] if unfit else leased
        dead = settled(self._queue, [one for one in self._prepared if one[0] in unfit], unfit)
        blobs = [blob.encode(chunk) for chunk in blob.chunked(fit, max(1, self._chunk_rows(len(fit))))]
        return Prepared(self._prepared, [(one.id, one.attempts) for one in fit], blobs, dead)

    def write(self, prepared: Prepared) -> None:
        """Make the next claim of what was prepared, unless nothing of it fits."""
        state, writes = self._record.state, []
        if prepared.blobs:
            claim = state.claimed + 1
            state = replace(state, claimed=claim, chunks={**state.chunks, claim: len(prepared.blobs)})
            keys = chunk_keys(self._record.key, claim, len(prepared.blobs))
            writes = [RecordWrite(CLAIMS, key, one) for key, one in zip(keys, prepared.blobs, strict=True)]
            writes += [Verdicts(key).adding({}) for key in keys]
        try:
            if prepared.leases:
                self._record.commit(state, settle=prepared.dead, records=writes)
        except ConsumerTakenOver:
            self.give_back(prepared)
            raise
        if prepared.blobs:
            self._open[state.claimed] = prepared.fit
            self._judged.add(state.claimed)
        self._prepared = []

    def give_back(self, prepared: Prepared) -> None:
        """Return what was prepared to the queue."""
        give_back(self._store, self._queue, prepared.leases)
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
        return [Lease(self._queue, *one) for claim in claims for one in claim]

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
        leases = self._leases_of(claim)
        renewed = self._store.renew([Lease(self._queue, *one) for one in leases], timeout=self._request.timeout)
        lost = {message_id for (message_id, _), until in zip(leases, renewed, strict=True) if until is None}
        if not lost:
            return
        _log.warning("%s: %d of %d leases of claim %d were lost", self._shown, len(lost), len(leases), claim)
        writes = [RecordWrite(CLAIMS, key, blob.without(self._chunk(key), lost)) for key in self._keys(claim)]
        self._record.commit(self._record.state, records=writes)
        self._open[claim] = [one for one in leases if one[0] not in lost]

    def _release_debris(self) -> None:
        known = {held for claim in self._open.values() for held in claim}
        for page in held_by(self._store, self._queue, self._request.leased_by or ""):
            give_back(self._store, self._queue, [held for held in page if held not in known])

    # judging and settling

    def _judge(self, claim: int) -> None:
        """Write down the verdicts of this driver on a claim of an earlier one."""
        if claim in self._judged:
            return
        misfits = {key: self._misfits_of(key) for key in self._keys(claim)}

        def write() -> None:
            found = read_verdicts(self._store, misfits)
            new = [one.adding(misfits[key]) for key, one in found.items() if one.lacks(misfits[key])]
            if new:
                self._record.commit(self._record.state, records=new)

        undisturbed(write)
        self._judged.add(claim)

    def _misfits_of(self, key: str) -> dict[str, Error]:
        if self._misfits is None:
            return {}
        return corrupt(self._misfits(blob.decode(self._chunk(key), self._queue)))

    def _settle(self, upto: int) -> None:
        state = self._record.state
        claims = range(state.settled + 1, upto + 1)
        done = [lease for claim in claims for lease in self._leases_of(claim)]
        kept = {claim: count for claim, count in state.chunks.items() if claim >= upto}
        after = replace(state, settled=upto, chunks=kept)
        gone = state.chunks.keys() - kept

        def write() -> Committed:
            verdicts = read_verdicts(self._store, [key for claim in claims for key in self._keys(claim)])
            errors = {one: error for found in verdicts.values() for one, error in found.errors.items()}
            closed = [one.closing() for key, one in verdicts.items() if key in self._keys(upto)]
            gone_too = self._forget(gone, verdicts)
            return self._record.commit(after, settle=settled(self._queue, done, errors), records=[*closed, *gone_too])

        committed = undisturbed(write)
        self._open = {claim: leases for claim, leases in self._open.items() if claim > upto}
        if lost := committed.settled.count(False):
            _log.warning("%s: %d of %d leases of claim %d were lost before it was settled, and the messages are "
                         "delivered again", self._shown, lost, len(done), upto)  # fmt: skip

    def _number_from(self, claim: int) -> None:
        """Go on from a number that is not ours, giving back what is open."""
        state = self._record.state
        leases = [
            one for open_claim in range(state.settled + 1, state.claimed + 1) for one in self._leases_of(open_claim)
        ]
        back = returned(self._queue, leases)
        self._record.commit(
            replace(state, settled=claim, claimed=claim, chunks={}), settle=back, records=self._forget(state.chunks)
        )
        self._open = {}

    def _lost(self, what: str) -> None:
        text = (
            f"{self._shown}: {what}. The checkpoint was copied or restored, belongs to another consumer, or the store "
            "was restored: give the query a consumer name and a checkpoint of its own, or go on without what is lost "
            'by option("failOnDataLoss", "false")'
        )
        self._loss.tell(what, text)

    # records

    def _leases_of(self, claim: int) -> list[Held]:
        if claim not in self._open:
            self._open[claim] = [one for key in self._keys(claim) for one in blob.tokens(self._chunk(key))]
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
