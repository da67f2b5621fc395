"""What a bridge has done."""

from __future__ import annotations

from typing import Any, NamedTuple


class BridgeCounts(NamedTuple):
    """`received` messages came; `moved` of them are new at the target, `duplicates` were there already, and those that
    the target will never take were `dead_lettered` at the source. `retries` counts sends that failed and were repeated,
    `lost` acks that came too late: such a message comes again, and is a duplicate then."""

    received: int = 0
    moved: int = 0
    duplicates: int = 0
    dead_lettered: int = 0
    retries: int = 0
    lost: int = 0
    bytes: int = 0

    def __add__(self, other: tuple[Any, ...]) -> BridgeCounts:
        return BridgeCounts(*(one + more for one, more in zip(self, other, strict=True)))

    def as_dict(self) -> dict[str, int]:
        return self._asdict()
