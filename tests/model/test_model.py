"""The model of the queue's rules is sound, and every property of it is found broken when a fault is planted.

One fault a property, because each is a program to compile; `./script/model` plants all of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model.__main__ import main
from tests.model.search import HERE, Fault, NotExhaustive, Scene, check_exhaustive, missing_programs, search
from tests.model.table import FAULTS, QUICK

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "model.md"
STORES = Path(__file__).parents[2] / "src" / "localqueue" / "stores"


@pytest.fixture
def spin() -> None:
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)}; run ./script/test, or install spin, gcc and libc6-dev")


@pytest.mark.parametrize("scene", QUICK, ids=str)
def test_no_state_of_a_scene_breaks_a_property(spin: None, scene: Scene) -> None:
    verdict = search(scene)
    assert verdict.broken is None, verdict
    assert verdict.states > 1_000


@pytest.mark.parametrize("fault", {fault.breaks: fault for fault in FAULTS}.values(), ids=lambda fault: fault.name)
def test_a_planted_fault_breaks_its_property(spin: None, fault: Fault) -> None:
    verdict = search(fault.scene, fault.name)
    assert verdict.broken == fault.breaks, verdict
    assert verdict.steps


def test_the_way_to_a_fault_is_told(spin: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", "token_not_compared"]) == 0
    assert "worker 0 acks message 0, token 1\nbroken: stale_tokens_change_nothing" in capsys.readouterr().out


@pytest.mark.parametrize("sign", ["error: max search depth too small", "Bit statespace search for:"])
def test_a_search_that_has_not_seen_everything_proves_nothing(sign: str) -> None:
    check_exhaustive("Full statespace search for:")
    with pytest.raises(NotExhaustive):
        check_exhaustive(f"Full statespace search for:\n{sign}")


def test_the_model_the_table_and_the_page_know_the_same_faults_and_properties() -> None:
    planted, properties = (set(re.findall(r"\w+", body)) for body in _enumerations()[:2])
    assert {fault.name for fault in FAULTS} == planted - {"none"}
    assert {fault.breaks for fault in FAULTS} == properties | {"progress"}
    rows = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(fault.name, fault.breaks) for fault in FAULTS]
    assert set(re.findall(r"^- `(\w+)`:", PAGE.read_text(), re.MULTILINE)) == properties | {"progress"}


def test_the_page_says_what_stands_for_what_is_in_the_engine() -> None:
    model = (HERE / "queue.pml").read_text()
    rows = re.findall(r"^\| (.*?) \| `([\w/]+\.py)`: (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 9
    for ours, module, theirs in rows:
        for name in re.findall(r"`(\w+)`", ours):
            assert re.search(rf"^(?:inline|#define) {name}\b", model, re.MULTILINE), name
        code = (STORES / module).read_text()
        for name in re.findall(r"`(\w+)`", theirs):
            assert re.search(rf"^ *def {name}\(", code, re.MULTILINE), f"{module}: {name}"


def _enumerations() -> list[str]:
    return re.findall(r"^mtype = \{(.*?)\}", (HERE / "queue.pml").read_text(), re.MULTILINE | re.DOTALL)
