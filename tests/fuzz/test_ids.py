"""An id is what `mint` made, letter for letter; whatever else is given where an id is taken belongs to no message."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.ids import Mint
from tests.fuzz.effort import examples
from tests.fuzz.words import things, words

MINT = Mint(0x1234_5678_9ABC_DEF1)
REAL = MINT.id_of(0x0C5_6598_530D_9784)

#: The zeros of other scripts, each followed by its other digits: Arabic-Indic, fullwidth, Devanagari.
ZEROS = "\u0660\uff10\u0966"
FRONTS = ["", "0x", "0X", "+", " ", "\t", "\n", "_", "-", "O", "x", "\0", *ZEROS]


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A real id, spelled in another way that `int(text, 16)` may take for the same number."""
    text = draw(st.sampled_from([REAL, REAL.upper(), REAL.title()]))
    for at in draw(st.lists(st.integers(0, 31), max_size=3)):
        if text[at] in "0123456789":
            digit = chr(ord(draw(st.sampled_from(ZEROS))) + int(text[at]))
            text = text[:at] + digit + text[at + 1 :]
    front = draw(st.sampled_from(FRONTS))
    return draw(st.sampled_from([front + text[len(front) :], front + text, text + front, text.lstrip("0").rjust(32)]))


@given(spellings() | words)
@example("+" + REAL[1:])
@example(" " + REAL[1:])
@example("\n" + REAL[1:])
@example("\u0660" + REAL[1:])
@example(REAL.upper())
@examples(300)
def test_only_the_very_text_that_was_minted_is_an_id(text: str) -> None:
    expected = int(REAL[:16], 16) if text == REAL else None
    assert MINT.key_of(text) == expected
    assert list(MINT.keys_of([text])) == [expected]
    assert list(MINT.keys_of([REAL, text])) == [MINT.key_of(REAL), expected]


@given(things)
@example(REAL.encode())
@example(bytearray(REAL.encode()))
@examples(100)
def test_what_is_no_text_is_no_id(thing: Any) -> None:
    if not isinstance(thing, str):
        assert MINT.key_of(thing) is None
        assert list(MINT.keys_of([thing])) == [None]
        assert list(MINT.keys_of([REAL, thing])) == [MINT.key_of(REAL), None]


@given(st.integers(1, 2**63 - 1))
@examples(200)
def test_every_key_comes_back_from_its_id(key: int) -> None:
    assert MINT.key_of(MINT.id_of(key)) == key
    assert list(MINT.keys_of([MINT.id_of(key)] * 2)) == [key, key]
