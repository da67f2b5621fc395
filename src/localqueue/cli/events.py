"""`--log-events`: one JSON object on stderr for each thing that happens to a message."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from localqueue.cli.errors import say

LogEvents = Annotated[
    bool, typer.Option("--log-events", help="Write each transition to stderr, as one JSON object a line.")
]


def log(wanted: bool, event: str, **fields: Any) -> None:
    """Write the event; fields that are None are left out."""
    if wanted:
        known = {name: value for name, value in fields.items() if value is not None}
        say(json.dumps({"event": event, **known}, default=repr))
