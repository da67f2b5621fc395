"""Every operation of the port, called in one namespace, finds and changes nothing of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from localqueue.stores.port import QueueStore
from tests.crash.stores import Clock
from tests.faults.probes import PROBES, fill, picture
from tests.stores import OPENERS, SERVERS, new_place

pytestmark = pytest.mark.slow


def test_there_is_a_probe_for_every_operation_of_the_port() -> None:
    assert set(PROBES) == {name for name in vars(QueueStore) if not name.startswith("_")}


@pytest.mark.parametrize("kind", OPENERS)
def test_no_operation_reaches_into_another_namespace(kind: str, tmp_path: Path) -> None:
    place, clock = new_place(kind, tmp_path), Clock()
    prefix = f"{place.namespace}-" if kind in SERVERS else ""
    with place.beside(f"{prefix}ours").open(clock=clock) as ours:
        known = fill(ours, tmp_path)
        before = picture(ours)
        assert before["check"] == ()
        for number, (name, probe) in enumerate(PROBES.items()):
            with place.beside(f"{prefix}theirs{number}").open(clock=clock) as theirs:
                try:
                    probe(theirs, known)
                except Exception as error:
                    raise AssertionError(f"{name} on {kind}") from error
            after = picture(ours)
            assert after == before, f"{name} changed {[part for part in before if before[part] != after[part]]}"
