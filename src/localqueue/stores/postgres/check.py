"""The integrity check: what must be true of the rows of a namespace, whatever happened to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.stores.port import CheckReport

if TYPE_CHECKING:
    from localqueue.stores.postgres.reads import Reads


def check(store: Reads) -> CheckReport:
    found = store._all(store.sql.CHECK, (store.namespace_id,))
    return CheckReport(tuple(f"{problem}: {example}" for problem, example in found))
