"""Names, keys and ids that look like SQL, Lua, patterns or operators are stored and read back as they are, or refused.

On every store, in every position where its port takes a text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueError
from tests.crash.stores import Clock
from tests.faults.hostile import POSITIONS, TEXTS, may_be_refused, put, some_texts
from tests.stores import OPENERS, SERVERS, new_place

pytestmark = pytest.mark.slow


def assert_refusal(refusal: Exception, text: str) -> None:
    """A refusal is one of this package's errors or a ValueError, and not what a driver happened to say."""
    assert may_be_refused(text), f"{text!r}: {type(refusal).__name__}: {refusal}"
    assert isinstance(refusal, (QueueError, ValueError)), f"{text[:60]!r}: {type(refusal).__name__}: {refusal}"
    home = type(refusal).__module__.partition(".")[0]
    assert home in ("localqueue", "builtins"), f"{text[:60]!r}: {type(refusal)}: {refusal}"
    assert str(refusal), f"{text[:60]!r} was refused without a word"


def bystander(store: Any) -> Any:
    return store.scan("bystander"), store.stats("bystander"), store.run("bystander"), store.records("bystander")


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_text_is_stored_and_read_back_equal_or_refused(kind: str, position: str, tmp_path: Path) -> None:
    texts = some_texts(list(POSITIONS).index(position)) if kind in SERVERS else TEXTS  # a server takes its time
    with new_place(kind, tmp_path).open(clock=Clock()) as store:
        put(store, "bystander", run_id="bystander", dedupe_key="d", ordering_key="k")
        before = bystander(store)
        refused = []
        for text in texts:
            try:
                POSITIONS[position](store, text)
            except AssertionError as error:
                raise AssertionError(f"the text {text[:60]!r} ({len(text)} characters)") from error
            except Exception as refusal:
                assert_refusal(refusal, text)
                refused.append(text)
        assert bystander(store) == before
        assert store.check().problems == ()
        if position == "queue":
            held = {name: [message.payload for message in store.scan(name)] for name in store.queues()}
            held.pop("bystander")
            assert held == {text: [text] for text in texts if text not in refused}
        print(f"{kind}, {position}: refused {[text[:20] for text in refused]}")


@pytest.mark.parametrize("kind", [kind for kind in OPENERS if kind != "memory"])
def test_a_namespace_of_any_name_is_its_own_or_refused(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    accepted: list[str] = []
    for number, text in enumerate(TEXTS):
        if kind in SERVERS and text not in some_texts(0):
            continue
        try:
            with place.beside(text).open() as store:
                assert store.namespace == text
                assert store.queues() == []
                store.put_one("jobs", str(number), None)
        except AssertionError as error:
            raise AssertionError(f"the namespace {text[:60]!r} ({len(text)} characters)") from error
        except Exception as refusal:
            assert_refusal(refusal, text)
            continue
        accepted.append(text)
    for text in accepted:
        with place.beside(text).open() as store:
            assert [message.payload for message in store.scan("jobs")] == [str(TEXTS.index(text))]
            assert store.check().problems == ()
