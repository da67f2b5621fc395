"""Keys are read from the arguments of a call, however they were passed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from localqueue.retry import idempotency_key_from_id, key_from_argument, key_from_attr


def run(task: Any, job_id: Any = "default", *, force: bool = False, **rest: Any) -> None: ...


TASK = SimpleNamespace(id=7, name="video", empty=None)


@pytest.mark.parametrize(
    ("args", "kwargs", "key"),
    [
        ((TASK, "a"), {}, "a"),
        ((TASK,), {"job_id": "a"}, "a"),
        ((TASK,), {}, "default"),
        ((), {"job_id": "a"}, "a"),
        ((TASK, 12), {}, "12"),
    ],
)
def test_a_key_is_an_argument(args: Any, kwargs: Any, key: str) -> None:
    assert key_from_argument("job_id")(run, args, kwargs) == key


def test_an_argument_among_the_rest_is_found() -> None:
    assert key_from_argument("other")(run, (TASK,), {"other": "x"}) == "x"


def test_a_key_is_an_attribute_of_an_argument() -> None:
    assert key_from_attr("task", "name")(run, (TASK,), {}) == "video"
    assert key_from_attr("task", "name", prefix="media")(run, (), {"task": TASK}) == "media:video"
    assert idempotency_key_from_id("task")(run, (TASK,), {}) == "7"
    assert idempotency_key_from_id("task", prefix="video")(run, (TASK,), {}) == "video:7"


def test_what_is_not_there_is_no_key() -> None:
    with pytest.raises(ValueError, match=r"^could not derive a persistent retry key from argument 'z'$"):
        key_from_argument("z")(run, (TASK,), {})
    with pytest.raises(ValueError, match=r"^could not derive a persistent retry key from argument 'job_id'$"):
        key_from_argument("job_id")(run, (TASK, None), {})
    with pytest.raises(ValueError, match=r"^could not derive a persistent retry key from argument 'z'$"):
        key_from_attr("z", "id")(run, (TASK,), {})
    for attribute in ("zz", "empty"):
        with pytest.raises(ValueError, match=f"^could not derive a persistent retry key from task.{attribute}$"):
            key_from_attr("task", attribute)(run, (TASK,), {})


def test_empty_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^argument name cannot be empty$"):
        key_from_argument("")
    with pytest.raises(ValueError, match=r"^argument name cannot be empty$"):
        key_from_attr("", "id")
    with pytest.raises(ValueError, match=r"^attribute name cannot be empty$"):
        key_from_attr("task", "")
    with pytest.raises(ValueError, match=r"^prefix cannot be empty$"):
        idempotency_key_from_id("task", prefix="")
