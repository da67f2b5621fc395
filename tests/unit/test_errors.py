"""Errors travel between processes."""

from __future__ import annotations

import pickle

import pytest

from localqueue import LeaseLost, QueueFull
from localqueue.errors import QueueError


@pytest.mark.parametrize(
    "error", [QueueFull("jobs", 3), LeaseLost("jobs", "ab", 2)], ids=lambda error: type(error).__name__
)
def test_an_error_with_fields_survives_pickling(error: QueueError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
