"""Typed arguments and results: what is sent is what arrives, and what does not fit is said where it is sent."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import pydantic
import pytest

from localqueue import PayloadError
from localqueue.policies.codec import JSON_CODEC
from localqueue.tasks import ResultMisfit, SignatureChanged, TaskError
from localqueue.tasks.signature import TaskSignature


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Attachment:
    name: str
    data: bytes


@dataclass
class Parcel:
    content: Any


@dataclass(eq=False)
class Ticket:
    number: int


class Address(TypedDict):
    street: str
    number: int


class Person(pydantic.BaseModel):
    name: str
    born: date


VALUES: list[tuple[Any, Any]] = [
    (UUID, UUID("6f0c2f0e-5d8b-4f3a-9a7c-0f3c6f8b1a11")),
    (datetime, datetime(2026, 11, 17, 7, 30, 15, 123456, tzinfo=UTC)),
    (datetime, datetime(2026, 11, 17, 7, 30)),
    (date, date(2026, 11, 17)),
    (timedelta, timedelta(days=1, microseconds=5)),
    (Decimal, Decimal("12.340")),
    (Colour, Colour.RED),
    (bytes, b"\x00\xff"),
    (Attachment, Attachment("a.txt", b"text")),
    (list[Attachment], [Attachment("a", b""), Attachment("b", b"b")]),
    (Address, {"street": "Rua Augusta", "number": 7}),
    (Person, Person(name="Ana", born=date(1990, 1, 2))),
    (list[Person], [Person(name="Ana", born=date(1990, 1, 2))]),
    (tuple[int, str], (1, "one")),
    (dict[int, Decimal], {1: Decimal("0.1")}),
    (set[str], {"a"}),
    (UUID | None, None),
    (float, 1.5),
    (Any, {"plain": [1, 2.5, None, True, "text"]}),
]


def signature_of(kind: Any) -> TaskSignature:
    def function(value: Any) -> Any: ...

    function.__annotations__ = {"value": kind, "return": kind}
    return TaskSignature("function", function)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda one: str(one)[:30])
def test_a_value_arrives_as_it_was_sent(kind: Any, value: Any) -> None:
    signature = signature_of(kind)
    stored = JSON_CODEC.decode(JSON_CODEC.encode(signature.write((value,), {})))

    args, kwargs = signature.read(stored)

    assert (args, kwargs) == ((value,), {})
    assert type(args[0]) is type(value)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda one: str(one)[:30])
def test_a_result_comes_back_as_it_was_returned(kind: Any, value: Any) -> None:
    signature = signature_of(kind)

    assert signature.read_result(signature.write_result(value)) == value


def test_a_value_that_equals_nothing_but_itself_arrives() -> None:
    signature = signature_of(list[Ticket])

    ((read,), _) = signature.read(signature.write(([Ticket(7)],), {}))

    assert [ticket.number for ticket in read] == [7]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (UUID, "not one"),
        (UUID, "6f0c2f0e-5d8b-4f3a-9a7c-0f3c6f8b1a11"),
        (datetime, "2026-11-17T07:30:00"),
        (int, "1"),
        (int, 1.5),
        (Attachment, {"name": "a", "data": ""}),
        (list[int], ["1"]),
        (Any, datetime(2026, 1, 1)),
        (Any, (1, 2)),
        (Any, {1: "one"}),
        (Any, object()),
        (list, [(1, 2)]),
        (dict, {"at": datetime(2026, 1, 1)}),
        (list[UUID], ["6f0c2f0e-5d8b-4f3a-9a7c-0f3c6f8b1a11"]),
        (Parcel, Parcel((1, 2))),
        (float, float("nan")),
        (Person, {"name": "Ana"}),
    ],
    ids=lambda one: "an object" if type(one) is object else str(one)[:30],
)
def test_what_does_not_fit_is_refused_by_the_name_of_its_parameter(kind: Any, value: Any) -> None:
    with pytest.raises(PayloadError, match="does not fit parameter 'value'"):
        signature_of(kind).write((value,), {})


def test_a_call_that_the_function_would_not_take_is_a_type_error() -> None:
    def send(to: str, *, urgent: bool = False) -> None: ...

    signature = TaskSignature("send", send)

    for args, kwargs in [((), {}), (("a", "b"), {}), (("a",), {"urgnt": True})]:
        with pytest.raises(TypeError, match=r"task 'send': .*; it takes \(to"):
            signature.write(args, kwargs)


def test_every_kind_of_parameter_arrives() -> None:
    def function(a: int, /, b: str, c: float = 2.0, *rest: Decimal, d: bytes, **more: date) -> None: ...

    signature = TaskSignature("function", function)
    written = signature.write((1, "b", 3.0, Decimal(4)), {"d": b"d", "when": date(2026, 1, 1)})

    assert signature.read(written) == ((1, "b", 3.0, Decimal(4)), {"d": b"d", "when": date(2026, 1, 1)})


def test_a_default_is_that_of_the_function_when_it_runs() -> None:
    def before(a: int, b: int = 1) -> None: ...
    def now(a: int, c: int = 5, b: int = 2) -> None: ...

    assert TaskSignature("f", now).read(TaskSignature("f", before).write((1,), {})) == ((1,), {})
    assert TaskSignature("f", now).read({"a": 1, "b": 7}) == ((1,), {"b": 7})


def test_a_parameter_that_is_gone_new_or_of_another_type_is_named() -> None:
    def now(user: UUID) -> None: ...

    signature = TaskSignature("send", now)

    with pytest.raises(SignatureChanged, match=r"wants the parameter 'user'.*renamed="):
        signature.read({"person": "x"})
    with pytest.raises(SignatureChanged, match="no parameter 'when'"):
        signature.read({"user": "6f0c2f0e-5d8b-4f3a-9a7c-0f3c6f8b1a11", "when": 1})
    with pytest.raises(SignatureChanged, match="does not fit parameter 'user'"):
        signature.read({"user": 7})
    with pytest.raises(SignatureChanged, match="no mapping"):
        signature.read([1])


def test_a_parameter_that_was_renamed_is_found_by_its_old_name() -> None:
    def now(user: int) -> None: ...

    signature = TaskSignature("send", now, renamed={"person": "user"})

    assert signature.read({"person": 1}) == ((1,), {})
    assert signature.read({"user": 1}) == ((1,), {})
    with pytest.raises(TaskError, match="no parameter 'customer'"):
        TaskSignature("send", now, renamed={"person": "customer"})


def test_a_result_that_does_not_fit_is_refused() -> None:
    def function() -> int: ...  # type: ignore[empty-body]

    with pytest.raises(ResultMisfit, match="task 'function' returned 'text'"):
        TaskSignature("function", function).write_result("text")


def test_annotations_may_name_what_comes_later_but_must_be_there() -> None:
    def function(value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TaskError, match=r"the annotations of task 'function' can not be read: .*Missing"):
        TaskSignature("function", function).write((1,), {})
