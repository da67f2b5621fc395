"""Whether a store kept its promises, decided from what clients were told and what is left in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.chaos.facts import Facts
from tests.chaos.history import Final, Operation
from tests.chaos.verdicts import commits, delivery, keys, leases, limits, order
from tests.chaos.verdicts.violation import Rules, Violation

#: Every kind of violation and what finds it; "stuck" is found by who waits in vain.
CHECKS: dict[str, Callable[[Facts, Rules], Iterator[Violation]]] = {
    "loss": delivery.loss,
    "ghost": delivery.ghosts,
    "doubling": delivery.doubling,
    "isolation": delivery.isolation,
    "effect": delivery.effects,
    "fencing": leases.fencing,
    "stolen": leases.stolen,
    "order": order.keys,
    "fifo": order.fifo,
    "dependency": order.dependencies,
    "torn": commits.torn,
    "fan-out": commits.fan_out,
    "dedupe": keys.dedupe,
    "capacity": limits.capacity,
    "limits": limits.attempts_and_times,
    "foreign": commits.foreign,
    "integrity": commits.integrity,
    "journal": commits.journal,
}


def judge(operations: Iterable[Operation], final: Final, rules: Rules | None = None) -> list[Violation]:
    """Every broken promise that the history of a store shows."""
    facts, rules = Facts(operations, final), rules or Rules()
    return [violation for check in CHECKS.values() for violation in check(facts, rules)]


__all__ = ["CHECKS", "Rules", "Violation", "judge"]
