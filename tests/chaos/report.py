"""What a campaign found, as text for the one who waits and as Markdown to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.chaos.round import Outcome
from tests.chaos.verdicts import Violation

_MOST_SHOWN, _OF_A_KIND = 20, 2
_LONGEST = 4000


@dataclass
class Tally:
    """All rounds on one store. Sizes are in bytes: at the start, and when the last round was drained."""

    kind: str
    seed: str
    rounds: int = 0
    operations: int = 0
    seconds: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, Violation]] = field(default_factory=list)
    disk: tuple[int, int] = (0, 0)
    memory: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.rounds += 1
        self.operations += outcome.operations
        self.seconds += outcome.seconds
        self.answers += outcome.answers
        self.violations += ((outcome.plan.name, violation) for violation in outcome.violations)

    @property
    def kinds(self) -> str:
        """How many violations of each kind."""
        found = Counter(violation.kind for _, violation in self.violations)
        return ", ".join(f"{count} {kind}" for kind, count in found.most_common()) or "none"


def line(outcome: Outcome, counts: Counter[str]) -> str:
    """One round, for who watches."""
    broken = ", ".join(f"{onset.fault} at {onset.at:.0f} s" for onset in outcome.plan.onsets) or "nothing broken"
    plan = outcome.plan
    return (
        f"{plan.kind} round {plan.name}: {outcome.operations} operations, {counts['kills']} kills so far, {broken}; "
        f"{len(outcome.violations)} violations ({outcome.seconds:.0f} s)"
    )


def markdown(tallies: Sequence[Tally]) -> str:
    parts = ["# Chaos campaign", "", *_table(tallies), ""]
    for tally in tallies:
        parts += [f"## {tally.kind}", "", *_paragraph(tally), ""]
        parts += _violations(tally)
    return "\n".join(parts).rstrip() + "\n"


def _table(tallies: Iterable[Tally]) -> list[str]:
    head = ("store", "seed", "minutes", "operations", "kills", "stops", "server kills", "cuts", "violations")
    rows = [
        (
            tally.kind, tally.seed, f"{tally.seconds / 60:.1f}", f"{tally.operations:,}", f"{tally.counts['kills']:,}",
            str(tally.counts["stops"]), str(tally.counts["server kill"]), str(tally.counts["connections cut"]),
            tally.kinds,
        )
        for tally in tallies
    ]  # fmt: skip
    return ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]


def _paragraph(tally: Tally) -> list[str]:
    done = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.counts.items())) or "nothing"
    told = ", ".join(f"{count:,} {answer}" for answer, count in tally.answers.most_common())
    disk, memory = (tuple(map(_size, sizes)) for sizes in (tally.disk, tally.memory))
    lines = [
        f"- {tally.rounds} rounds; what was done: {done}",
        *([f"- what clients were told: {told}"] if told else []),
        f"- on disk {disk[0]} at the start, {disk[1]} after the last round was drained",
    ]
    if any(tally.memory):
        lines.append(f"- memory of the server {memory[0]} at the start, {memory[1]} at the end")
    return lines + [f"- {note}" for note in tally.notes]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _violations(tally: Tally) -> list[str]:
    """The first few of each kind in each round."""
    seen: Counter[tuple[str, str]] = Counter()
    shown: list[str] = []
    for name, violation in tally.violations:
        seen[name, violation.kind] += 1
        if seen[name, violation.kind] <= _OF_A_KIND and len(shown) < _MOST_SHOWN:
            shown.append(f"Round {name}\n\n```\n{str(violation)[:_LONGEST]}\n```\n")
    rest = len(tally.violations) - len(shown)
    return shown + ([f"And {rest} more.\n"] if rest else [])
