"""The ways of a client to claim messages and to settle them, early, late and twice."""

from __future__ import annotations

from localqueue.stores import port
from localqueue.stores.port import Changes, LeaseRequest, RecordWrite, Settle
from tests.chaos.client import Lease
from tests.chaos.facts import EFFECTS
from tests.chaos.history import Claim, Put
from tests.chaos.producer import CONSUMED, LEDGER, MOST, ORDERS, PLAIN, STEPS, Producer
from tests.chaos.verdicts.delivery import effect_of


class Consumer(Producer):
    #: How long its leases are.
    timeouts: tuple[float, ...] = (0.15, 0.5, 2.0)

    def claim(self) -> None:
        queue, limit = self._queue(), self.chance.choice((1, 1, 1, 5))
        claim = Claim(queue, limit, self.chance.choice(self.timeouts), self._worker(), MOST.get(queue))
        one = self.ask("claim", lambda: self.store.lease(request(claim)), claim=claim)
        self.known += ((handed.name, handed.id) for handed in one.handed[:1])

    def consume(self) -> None:
        claim = Claim(CONSUMED, self.chance.choice((1, 3)), 1.0, self._worker(), consume=True)
        self.ask("consume", lambda: self.store.lease(request(claim)), claim=claim)

    def ack_one(self) -> None:
        lease = self._a_lease()
        if lease is not None:
            self.ask(
                "ack_one",
                lambda: self.store.ack_one(lease.queue, lease.id, lease.token),
                endings=(lease.ending("ack"),),
            )

    def ack_some(self) -> None:
        """Many acks in one commit, and at times the next claim with them."""
        leases = [lease for lease in (self._a_lease() for _ in range(6)) if lease is not None]
        if not leases:
            return
        claim = None
        if self.chance.random() < 0.4:
            queue = leases[0].queue
            limit, timeout = self.chance.choice((1, 3)), self.chance.choice(self.timeouts)
            claim = Claim(queue, limit, timeout, self._worker(), MOST.get(queue))
        changes = Changes(settle=[settle(lease, "ack") for lease in leases], strict=False)
        changes.lease = None if claim is None else request(claim)
        endings = tuple(lease.ending("ack") for lease in leases)
        self.ask("ack_some", lambda: self.store.commit(changes), endings=endings, claim=claim)

    def ack_and_put(self) -> None:
        """A transaction: acks, messages and a record, strictly."""
        leases = [lease for lease in (self._a_lease(), self._a_lease()) if lease is not None]
        if leases:
            puts = [Put(queue, self.name(queue)) for queue in (PLAIN, STEPS)]
            record = self.name("record")
            changes, ids = self.changes(puts, {}, record)
            changes.settle = [settle(lease, "ack") for lease in leases]
            endings = tuple(lease.ending("ack") for lease in leases)
            self.ask(
                "ack_and_put", lambda: self.store.commit(changes), ids=ids, puts=tuple(puts), record=record,
                endings=endings,
            )  # fmt: skip

    def give_back(self) -> None:
        """Release, dead-letter or cancel, with an error that may be long."""
        lease = self._a_lease()
        if lease is None:
            return
        action = self.chance.choice(("release", "release", "release", "dead-letter", "cancel"))
        delay = self.chance.choice((0.0, 0.0, 0.1)) if action == "release" else 0.0
        error = {"type": "Poison", "message": "x" * self.chance.choice((0, 10, 100_000))}
        one = settle(lease, action)._replace(delay=delay, error=error)
        changes = Changes(settle=[one], strict=False)
        self.ask("give_back", lambda: self.store.commit(changes), endings=(lease.ending(action),))

    def renew(self) -> None:
        leases = list(self.chance.sample(list(self.held), min(len(self.held), 3)))
        if self.spent and self.chance.random() < 0.3:
            leases.append(self.chance.choice(list(self.spent)))
        if leases:
            asked = [port.Lease(lease.queue, lease.id, lease.token) for lease in leases]
            endings = tuple(lease.ending("renew") for lease in leases)
            # By the longest of them, so that a renewal nobody heard of can not have shortened a lease.
            self.ask("renew", lambda: self.store.renew(asked, timeout=max(self.timeouts)), endings=endings)

    def settle_again(self) -> None:
        """A lease that was settled already, as a client does that was not told."""
        if self.spent:
            lease = self.chance.choice(list(self.spent))
            action = self.chance.choice(("ack", "release"))
            changes = Changes(settle=[settle(lease, action)], strict=False)
            self.ask("settle_again", lambda: self.store.commit(changes), endings=(lease.ending(action),))

    def requeue(self) -> None:
        queue = self._queue()
        self.ask("requeue", lambda: self.store.requeue(queue), queue=queue)

    def work(self) -> int:
        """Do what was ordered, once for each key: the ledger knows what was done, and the ack writes it down. Returns
        how many messages there were."""
        claim = Claim(ORDERS, 1, self.chance.choice(self.timeouts), self._worker())
        asked = request(claim)._replace(ledger=LEDGER)
        done: dict[str, bool] = {}
        keys: dict[str, str] = {}

        def lease() -> list[port.StoredMessage]:
            messages: list[port.StoredMessage] = self.store.lease(asked)
            done.update({message.id: message.record is not None for message in messages})
            keys.update({message.id: message.dedupe_key or "" for message in messages})
            return messages

        self.ask("claim", lease, claim=claim)
        for held in [one for one in self.held if one.id in done]:
            self.held.remove(held)
            self._finish(held, keys[held.id], done[held.id])
        return len(done)

    def _finish(self, lease: Lease, key: str, done: bool) -> None:
        endings = (lease.ending("ack"),)
        if done:
            changes, ids, puts = Changes(), [], []
        else:
            effect = effect_of(self.namespace, key)
            puts = [Put(EFFECTS, effect)]
            changes, ids = self.changes(puts, {}, None)
            changes.records = [RecordWrite(LEDGER, f"{ORDERS}:{key}", b"done", 0)]
        changes.settle = [settle(lease, "ack")]
        self.ask("work", lambda: self.store.commit(changes), ids=ids, puts=tuple(puts), endings=endings)

    def _queue(self) -> str:
        return self.chance.choice(self.chance.choice(self.claimed))

    def _worker(self) -> str | None:
        """Claims without a name, or that are not counted under it, take a shorter way in some stores."""
        return self.chance.choice((None, self.who))

    def empty(self, queue: str) -> int | None:
        """Deliver some messages of a queue for which an ack is not enough: how many, or None where it is."""
        return self.work() if queue == ORDERS else None

    def _a_lease(self) -> Lease | None:
        """One of those it holds, or thinks it does; it is done with it then."""
        if not self.held:
            return None
        lease = self.chance.choice(list(self.held))
        self.held.remove(lease)
        self.spent.append(lease)
        return lease


def request(claim: Claim) -> LeaseRequest:
    return LeaseRequest(claim.queue, claim.limit, claim.timeout, claim.worker, claim.most, claim.consume)


def settle(lease: Lease, action: str) -> Settle:
    return Settle(lease.queue, lease.id, action, lease.token, max_attempts=lease.most)  # type: ignore[arg-type]
