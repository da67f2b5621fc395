"""Where messages go that can not be processed."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class DeadLetterPolicy(Protocol):
    """Names how failed messages leave normal delivery."""

    @property
    def dead_letters(self) -> bool: ...

    @property
    def stores_failures(self) -> bool: ...

    @property
    def supports_requeue(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQueue(Described):
    """A failed message is kept, can be inspected with its error, and can be sent again."""

    dead_letters: bool = True
    stores_failures: bool = True
    supports_requeue: bool = True


DEAD_LETTER_QUEUE = DeadLetterQueue()
