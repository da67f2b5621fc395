"""How finished work leaves the queue."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class AcknowledgementPolicy(Protocol):
    """Names how completed messages are acknowledged."""

    @property
    def acknowledgements(self) -> bool: ...

    @property
    def explicit_ack(self) -> bool: ...

    @property
    def removes_on_ack(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitAcknowledgement(Described):
    """The consumer says when work succeeded, and the message is gone once it has."""

    acknowledgements: bool = True
    explicit_ack: bool = True
    removes_on_ack: bool = True


EXPLICIT_ACKNOWLEDGEMENT = ExplicitAcknowledgement()
