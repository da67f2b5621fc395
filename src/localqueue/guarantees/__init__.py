"""Which policies may be combined, and what each combination promises.

One table, `RULES`. The queue's constructor refuses by it, `docs/guarantees.md` is printed from it
with `python -m localqueue.guarantees`, and its rows name the tests that would fail if they were
false.
"""

from __future__ import annotations

from localqueue.errors import IncompatiblePolicies
from localqueue.guarantees.page import as_dict, as_markdown
from localqueue.guarantees.promises import PROMISES
from localqueue.guarantees.refusals import REFUSALS
from localqueue.guarantees.rule import LEVELS, Guarantee, Level, Rule
from localqueue.policies.configuration import Configuration, check_semantics, derive_semantics

__all__ = [
    "LEVELS",
    "RULES",
    "Configuration",
    "Guarantee",
    "Level",
    "Rule",
    "as_dict",
    "as_markdown",
    "check",
    "check_semantics",
    "derive_semantics",
    "guarantees_of",
    "rule",
]

RULES: tuple[Rule, ...] = PROMISES + REFUSALS

_BY_ID = {row.guarantee.id: row.guarantee for row in RULES}
_REFUSED_AT_CONSTRUCTION = tuple(row for row in RULES if row.guarantee.refused_at == "construction")


def check(configuration: Configuration) -> None:
    """Raise IncompatiblePolicies for the first rule that refuses this configuration."""
    for row in _REFUSED_AT_CONSTRUCTION:
        if row.applies(configuration):
            raise IncompatiblePolicies(row.guarantee.message)


def guarantees_of(configuration: Configuration) -> list[Guarantee]:
    """List what the table says about this configuration, in the order of the table."""
    return [row.guarantee for row in RULES if row.applies(configuration)]


def rule(rule_id: str) -> Guarantee:
    """Return the row with this id; its `message` is what the refusal says."""
    return _BY_ID[rule_id]
