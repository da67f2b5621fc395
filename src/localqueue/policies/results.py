"""What happens to the value a handler returned."""

from __future__ import annotations

from typing import Any

from localqueue._dataclass import KW_ONLY, dataclass
from localqueue.policies._described import Described, class_name


@dataclass(frozen=True, slots=True)
class ResultPolicy(Described):
    """Says whether a successful result is stored, and whether a duplicate gets it back."""

    stores_result: bool
    returns_cached_result: bool


@dataclass(frozen=True, slots=True)
class NoResultPolicy(ResultPolicy):
    """The ledger remembers that the work succeeded, not what it returned."""

    stores_result: bool = False
    returns_cached_result: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"type": "none", **Described.as_dict(self)}


@dataclass(frozen=True, slots=True)
class ReturnStoredResult(ResultPolicy):
    """A duplicate delivery returns the result of the first success.

    The result is kept in the idempotency ledger, or in `result_store` when one is attached; the
    ledger then holds only the key.
    """

    stores_result: bool = True
    returns_cached_result: bool = True
    _: KW_ONLY
    result_store: Any | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "return-stored",
            **Described.as_dict(self),
            "result_store": class_name(self.result_store),
        }


NO_RESULT_POLICY = NoResultPolicy()
RETURN_STORED_RESULT = ReturnStoredResult()
