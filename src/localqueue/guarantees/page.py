"""The guarantee table as a page for people and as plain values for programs."""

from __future__ import annotations

from typing import Any

from localqueue.guarantees.promises import PROMISES
from localqueue.guarantees.refusals import REFUSALS
from localqueue.guarantees.row import LEVELS, Guarantee

_INTRODUCTION = """\
# Guarantees

<!-- Printed by `python -m localqueue.guarantees`. Edit the table in localqueue.guarantees. -->

What each combination of policies promises, and which combinations are refused. The constructor of
`PersistentQueue` decides by the same table, and `localqueue.guarantees.guarantees_of()` returns
the rows that speak about one configuration.
"""


def as_dict() -> dict[str, Any]:
    """Return the levels and every row in plain values."""
    return {
        "levels": dict(LEVELS),
        "rules": [row.guarantee.as_dict() for row in PROMISES + REFUSALS],
    }


def as_markdown() -> str:
    """Return the text of `docs/guarantees.md`."""
    kept = [row.guarantee for row in PROMISES]
    refused = [row.guarantee for row in REFUSALS]
    at_construction = [row for row in refused if row.refused_at == "construction"]
    at_put = [row for row in refused if row.refused_at == "put"]
    sections = [
        _INTRODUCTION,
        "## Levels\n",
        _table(("Level", "Meaning"), [(f"`{name}`", text) for name, text in LEVELS.items()]),
        "## What is promised\n",
        _table(
            ("Combination", "Level", "What that means", "Proof"),
            [(row.combination, f"`{row.level}`", row.reason, _proof(row)) for row in kept],
        ),
        "## Refused when the queue is constructed\n",
        "The error is `IncompatiblePolicies`, which is a `ValueError`.\n",
        _table(
            ("Combination", "Why", "Way out", "Proof"),
            [(row.combination, row.reason, row.way_out, _proof(row)) for row in at_construction],
        ),
        "## Refused when a message is put\n",
        "The error is a `ValueError`, and nothing is stored.\n",
        _table(
            ("Combination", "Message", "Proof"),
            [(row.combination, f"`{row.message}`", _proof(row)) for row in at_put],
        ),
    ]
    return "\n".join(sections)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _proof(row: Guarantee) -> str:
    return ", ".join(_link(node) for node in row.proof)


def _link(node: str) -> str:
    path, *_, test = node.split("::")
    return f"[{test.removeprefix('test_').replace('_', ' ')}](../{path})"
