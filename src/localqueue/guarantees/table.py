"""The one table of all rules, and what it says about a configuration."""

from __future__ import annotations

from localqueue.guarantees.promises import PROMISES
from localqueue.guarantees.refusals import REFUSALS
from localqueue.guarantees.row import Guarantee, Rule
from localqueue.policies.configuration import Configuration

RULES: tuple[Rule, ...] = PROMISES + REFUSALS

_BY_ID = {row.guarantee.id: row.guarantee for row in RULES}


def guarantees_of(configuration: Configuration) -> list[Guarantee]:
    """List what the table says about this configuration, in the order of the table."""
    return [row.guarantee for row in RULES if row.applies(configuration)]


def rule(rule_id: str) -> Guarantee:
    """Return the row with this id; its `message` is what the refusal says."""
    return _BY_ID[rule_id]
