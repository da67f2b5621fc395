"""What a row of the guarantee table is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from localqueue._dataclass import dataclass
from localqueue.policies.configuration import Configuration

Level = Literal[
    "descriptive",
    "local",
    "best-effort",
    "at-most-once",
    "at-least-once",
    "effectively-once",
    "out-of-scope",
    "refused",
]

LEVELS: dict[Level, str] = {
    "descriptive": "The policy is printed and checked; it changes nothing at run time.",
    "local": "Holds inside one process or one store, and nowhere else.",
    "best-effort": "Usually happens; correctness must not depend on it.",
    "at-most-once": "May be lost, is never delivered twice.",
    "at-least-once": "Is not lost once `put` returned, may be delivered more than once.",
    "effectively-once": "May be delivered again, but work that succeeded is not repeated.",
    "out-of-scope": "Not promised by any configuration.",
    "refused": "Raises, because it would promise something that can not be kept.",
}

RefusedAt = Literal["construction", "put"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What one row says. A refused combination also says when it is refused and the way out."""

    id: str
    combination: str
    level: Level
    reason: str
    way_out: str = ""
    refused_at: RefusedAt | None = None
    proof: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """What the exception says when the combination is refused."""
        return f"{self.reason}; {self.way_out}" if self.way_out else self.reason

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "combination": self.combination,
            "level": self.level,
            "reason": self.reason,
            "way_out": self.way_out,
            "refused_at": self.refused_at,
            "proof": list(self.proof),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A row together with the configurations it speaks about."""

    guarantee: Guarantee
    applies: Callable[[Configuration], bool]
