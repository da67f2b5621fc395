"""Which policies may be combined, and what each combination promises.

One table, `RULES`. The queue's constructor refuses by it, `docs/guarantees.md` is printed from it
with `python -m localqueue.guarantees`, and its rows name the tests that would fail if they were
false. A queue loads the rows that refuse; the promises are loaded when somebody asks for them.
"""

from localqueue._exports import lazy

_TABLE = {
    "localqueue.guarantees.page": (
        "as_dict",
        "as_markdown",
    ),
    "localqueue.guarantees.refusals": ("check",),
    "localqueue.guarantees.row": (
        "Guarantee",
        "LEVELS",
        "Level",
        "Rule",
    ),
    "localqueue.guarantees.table": (
        "RULES",
        "guarantees_of",
        "rule",
    ),
    "localqueue.policies.configuration": (
        "Configuration",
        "check_semantics",
        "derive_semantics",
    ),
}

__all__, __getattr__, __dir__ = lazy(__name__, _TABLE)
