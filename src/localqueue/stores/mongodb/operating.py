"""The operator's part of the port."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localqueue.stores.mongodb import operate
from localqueue.stores.mongodb.base import Base
from localqueue.stores.mongodb.tx import Tx


class Operates(Base):
    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, True))

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, False))

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        if ids is not None:
            return self._write(lambda tx: operate.requeue(tx, queue, ids, delay))
        until = self.now()
        return self._in_pieces(lambda tx, behind: operate.requeue_dead(tx, queue, delay, behind, until))

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        until = self.now() - older_than
        if dry_run:
            count = self.server.messages.count_documents
            return self._read(queue, lambda q: int(count(operate.prunable(q, state, until))), 0)
        return self._in_pieces(lambda tx, _: operate.prune(tx, queue, state, until))

    def purge(self, queue: str) -> int:
        last = self._read(queue, lambda q: operate.last_key(self.server, q), 0)
        return self._in_pieces(lambda tx, _: operate.purge(tx, queue, last))

    def cancel_run(self, run_id: str) -> int:
        return self._in_pieces(lambda tx, _: operate.cancel_run(tx, run_id))

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, True))

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, False))

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._require_open()
        operate.heartbeat(self, self.queue_number(queue), worker_id, leases)

    def _in_pieces(self, work: Callable[[Tx, int], operate.Piece]) -> int:
        """Run work that may take several transactions; how many messages it changed."""
        count, behind = 0, 0
        while True:
            piece = self._write(lambda tx, behind=behind: work(tx, behind))  # type: ignore[misc]
            count += piece.changed
            if piece.behind is None:
                return count
            behind = piece.behind
