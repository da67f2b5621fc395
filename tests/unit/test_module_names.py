"""A module is a noun of the domain; a function is a verb."""

from __future__ import annotations

from pathlib import Path

import localqueue

PACKAGE = Path(localqueue.__file__).parent
NOUNS = {
    "contracts/fencing.py",
    "contracts/ordering.py",
    "dispatch/pending.py",
    "policies/ordering.py",
    "policies/routing.py",
    "stores/wiring.py",
}


def test_no_module_is_named_after_an_activity() -> None:
    assert {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*ing.py")} == NOUNS


#: The rooms of a store package. A store leaves out what it does not have; a room of its own has an idea of its own.
ROOMS = {"store", "connection", "schema", "rows", "fast", "reads", "journal", "notify", "backup", "space", "check"}
ROOMS |= {"errors", "native"}
OF_THEIR_OWN = {
    "sqlite": {"archive", "guest", "inserts", "onlooker", "records", "statements", "writer"},
    "lmdb": {"keys", "pages", "writer"},
    "postgres": {"guest", "guest_rows", "inserts", "libpq", "locks", "writer"},
    "redis": {"namespace", "operations", "privileges"},
    "mongodb": {"document", "gate", "records", "transaction"},
}


def test_every_store_package_has_the_same_rooms() -> None:
    for store, own in OF_THEIR_OWN.items():
        rooms = {path.stem for path in (PACKAGE / "stores" / store).glob("*.py")} - {"__init__"}
        assert rooms - ROOMS == own, store
        assert {"store", "connection", "schema", "rows", "fast", "reads", "notify", "backup", "errors"} <= rooms, store
