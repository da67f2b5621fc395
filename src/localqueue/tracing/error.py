"""What a span says of an error: its type, what it says, and the lines it came from, as a message keeps them."""

from __future__ import annotations

from localqueue.metrics.conventions import error_type
from localqueue.stores.kept_error import describe_error


def exception_attributes(error: BaseException) -> dict[str, str]:
    """The attributes of an `exception` event, each of a bounded length. Never the values of variables."""
    described = describe_error(error) or {}
    said = {"exception.type": error_type(error), "exception.message": described["message"]}
    return said | ({"exception.stacktrace": described["traceback"]} if "traceback" in described else {})
