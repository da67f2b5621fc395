"""What a change tells those who listen: the field `k` of a message, or of the one document of `lq_wakes`.

`c` is the channel: `ready:<namespace>` for messages that can be claimed, `room:<namespace>` for those that left the
ready ones, `run:<namespace>` for changes of a run. `q` is the queue. `t` makes it differ from what was said before,
because the server tells of fields that changed.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

READY, ROOM, RUN = "ready", "room", "run"

SAID = {"_id": "said"}


def channel(kind: str, namespace: int) -> str:
    return f"{kind}:{namespace}"


def say(kind: str, namespace: int, queue: int, stamp: int) -> dict[str, Any]:
    return {"c": channel(kind, namespace), "q": queue, "t": Int64(stamp)}


def say_new(namespace: int, queue: int) -> dict[str, Any]:
    """Of a new message: nothing was said before."""
    return {"c": channel(READY, namespace), "q": queue}
