"""Ids and the keys inside them."""

from __future__ import annotations

import pytest

from localqueue.ids import Mint, new_secret


def test_the_keys_of_many_ids_are_those_of_each() -> None:
    mint = Mint(new_secret())
    ids = mint.take(50)
    assert list(mint.keys_of(ids)) == [mint.key_of(one) for one in ids]
    assert list(mint.keys_of([])) == []
    assert mint.ids_of(mint.keys_of(ids)) == ids
    assert mint.ids_of([]) == []


@pytest.mark.parametrize(
    "wrong",
    ["", "x", "0" * 32, "f" * 32, "é" * 32, "0" * 31, "0" * 33, "0" * 64, " " * 32, "g" * 32],
)
def test_an_id_of_nobody_has_no_key_among_others_either(wrong: str) -> None:
    mint = Mint(new_secret())
    first, last = mint.take(2)
    assert list(mint.keys_of([first, wrong, last])) == [mint.key_of(first), None, mint.key_of(last)]


def test_an_id_of_another_namespace_has_no_key() -> None:
    mint, other = Mint(new_secret()), Mint(new_secret())
    assert list(mint.keys_of(other.take(2))) == [None, None]


def test_ids_that_are_cut_in_other_places_are_not_taken_for_ids() -> None:
    mint = Mint(new_secret())
    both = "".join(mint.take(2))
    assert list(mint.keys_of([both[:30], both[30:]])) == [None, None]
