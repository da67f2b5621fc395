"""Our named tuple is that of `typing` in everything a program can see."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from localqueue._named_tuple import NamedTuple


class Ours(NamedTuple):
    """A place."""

    x: int
    names: Mapping[str, int] | None = None

    @property
    def doubled(self) -> int:
        return self.x * 2


class Theirs(typing.NamedTuple):
    """A place."""

    x: int
    names: Mapping[str, int] | None = None

    @property
    def doubled(self) -> int:
        return self.x * 2


LOOK: list[Callable[[Any], Any]] = [
    lambda kind: repr(kind(1)).partition("(")[2],
    lambda kind: kind(1, {"a": 2}) == (1, {"a": 2}),
    lambda kind: kind(1)._replace(x=2)._asdict(),
    lambda kind: kind._fields,
    lambda kind: kind._field_defaults,
    lambda kind: kind._make([1, None]).doubled,
    lambda kind: kind.__doc__,
    lambda kind: kind.__module__,
    lambda kind: kind.__match_args__,
    lambda kind: kind.__mro__[1:],
    lambda kind: list(inspect.signature(kind).parameters),
    lambda kind: copy.deepcopy(kind(1)) == pickle.loads(pickle.dumps(kind(1))) == kind(1),
    typing.get_type_hints,
]


@pytest.mark.parametrize("look", LOOK)
def test_a_tuple_shows_what_one_of_typing_shows(look: Callable[[Any], Any]) -> None:
    assert look(Ours) == look(Theirs)


def test_a_field_without_a_value_is_refused() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Ours()  # type: ignore[call-arg]
