"""Our dataclass is that of the standard library in everything a program can see, and loads nothing of it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY
from types import ModuleType
from typing import Any, ClassVar

import pytest

from localqueue import _dataclass

Shape = tuple[type, type, type, type]


def shapes(made_by: ModuleType) -> Shape:
    """The same four classes, made by the standard library or by us."""
    dataclass, field = made_by.dataclass, made_by.field

    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 0
        _: KW_ONLY
        label: str = "here"
        seen: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s3cret", repr=False, hash=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(f"x is {self.x}")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Corner(Point):
        angle: float = 90.0
        _count: int = field(default=0, init=False, repr=False, compare=False)

    @dataclass(slots=True)
    class Open:
        names: list[str] = field(default_factory=list)
        total: int = 0

    @dataclass(frozen=True)
    class Roomy:
        value: Any
        headers: dict[str, str] = field(default_factory=dict)

        def __repr__(self) -> str:
            return "by hand"

    for one in (Point, Corner, Open, Roomy):
        one.__qualname__ = one.__name__
    return Point, Corner, Open, Roomy


THEIRS = shapes(dataclasses)
OURS = shapes(_dataclass)
MAKE: list[Callable[[Shape], Any]] = [
    lambda kinds: kinds[0](1),
    lambda kinds: kinds[0](1, 2, label="there"),
    lambda kinds: kinds[0](x=1, secret="other"),
    lambda kinds: kinds[1](x=3, angle=45.0),
    lambda kinds: kinds[2](),
    lambda kinds: kinds[2](["a"], 2),
    lambda kinds: kinds[3]("v"),
]
LOOK: list[Callable[[Any], Any]] = [
    repr,
    dataclasses.asdict,
    dataclasses.astuple,
    dataclasses.is_dataclass,
    lambda made: [(one.name, one.type, one.init, one.repr, one.kw_only) for one in dataclasses.fields(made)],
    lambda made: type(made).__match_args__,
    lambda made: type(made).__doc__ if type(made).__name__ == "Point" else None,
    lambda made: repr(copy.copy(made)),
    lambda made: copy.deepcopy(made) == made,
    lambda made: getattr(type(made), "__slots__", None),
    lambda made: hasattr(made, "__dict__"),
    lambda made: str(inspect.signature(type(made))),
    lambda made: type(made).__hash__ is None,
]
MISTAKES: list[Callable[[Shape], Any]] = [
    lambda kinds: kinds[0](),
    lambda kinds: kinds[0](-1),
    lambda kinds: kinds[0](1, 2, "there"),
    lambda kinds: kinds[0](1, nothing=2),
    lambda kinds: setattr(kinds[0](1), "x", 2),
    lambda kinds: delattr(kinds[0](1), "x"),
    lambda kinds: setattr(kinds[3](1), "other", 2),
    lambda kinds: dataclasses.replace(kinds[1](x=1), _count=3),
    lambda kinds: hash(kinds[2]()),
    lambda kinds: hash(kinds[3]([])),
]


@pytest.mark.parametrize("look", LOOK)
@pytest.mark.parametrize("make", MAKE)
def test_an_object_shows_what_one_of_the_standard_library_shows(
    make: Callable[[Shape], Any], look: Callable[[Any], Any]
) -> None:
    assert look(make(OURS)) == look(make(THEIRS))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_as_the_standard_library_refuses_it(mistake: Callable[[Shape], Any]) -> None:
    with pytest.raises(Exception) as theirs:
        mistake(THEIRS)
    with pytest.raises(type(theirs.value)) as ours:
        mistake(OURS)

    if not isinstance(theirs.value, TypeError):
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("one", MAKE)
@pytest.mark.parametrize("other", MAKE)
def test_objects_are_equal_where_those_of_the_standard_library_are(
    one: Callable[[Shape], Any], other: Callable[[Shape], Any]
) -> None:
    assert (one(OURS) == other(OURS)) == (one(THEIRS) == other(THEIRS))


def test_what_is_not_compared_or_hashed_changes_neither() -> None:
    point = OURS[0]

    assert point(1, seen=[1]) == point(1, seen=[2])
    assert hash(point(1, secret="a")) == hash(point(1, secret="b"))
    assert point(1, secret="a") != point(1, secret="b")


@pytest.mark.parametrize("change", [dataclasses.replace, _dataclass.replace])
def test_a_copy_may_have_other_values(change: Callable[..., Any]) -> None:
    corner = OURS[1](x=1, label="there")

    assert change(corner, x=2, angle=1.0) == OURS[1](x=2, label="there", angle=1.0)


def test_a_dataclass_of_the_standard_library_may_inherit() -> None:
    @dataclasses.dataclass(frozen=True)
    class Weighted(OURS[0]):  # type: ignore[misc]
        weight: float = dataclasses.field(default=1.0, kw_only=True)

    assert repr(Weighted(1, weight=2.0)).endswith("Weighted(x=1, y=0, label='here', seen=[], weight=2.0)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Weighted(1).weight = 3.0  # type: ignore[misc]


def test_a_class_that_inherits_may_have_attributes_of_its_own() -> None:
    class Named(OURS[3]):  # type: ignore[misc]
        pass

    named = Named("v")
    named.nick = "it"

    assert named.nick == "it"
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.value = "w"


@_dataclass.dataclass(frozen=True, slots=True)
class Sent:
    a: int
    b: tuple[int, ...] = ()


def test_a_frozen_object_with_slots_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Sent(1, (2,)))) == Sent(1, (2,))


def test_a_default_that_could_be_changed_is_refused() -> None:
    with pytest.raises(ValueError, match="the default of field names could be changed: use default_factory"):

        @_dataclass.dataclass()
        class Wrong:
            names: list[str] = []  # noqa: RUF012


def test_making_a_class_and_an_object_loads_nothing_of_the_standard_librarys() -> None:
    code = """
from __future__ import annotations
from localqueue._dataclass import dataclass
import sys

@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0

assert repr(Point(1)) == "Point(x=1, y=0)" and Point(1) == Point(1) and {Point(1)}
print({"dataclasses", "inspect"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "set()\n"
