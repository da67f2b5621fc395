"""Ways to a server that can break, and a limit to how long a call may take when they do."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from tests.servers import Server
from tests.stores import SERVERS, Place

#: How long a call on a server that is cut off may take before it counts as one that hangs.
DEADLINE = 30.0

T = TypeVar("T")


def through(place: Place, port: int) -> Place:
    """The same place, reached by way of a proxy on that port."""
    return place._replace(
        location={
            "postgres": f"postgresql://test@127.0.0.1:{port}/postgres",
            "redis": f"redis://127.0.0.1:{port}/0",
            # Without directConnection the client would learn the server's own address and go there.
            "mongodb": f"mongodb://127.0.0.1:{port}/?directConnection=true",
        }[place.kind]
    )


_own: dict[str, Server] = {}


def own_server(kind: str) -> Server:
    """A server that a test may kill; the next test that asks finds it running again."""
    if kind not in _own:
        _own[kind] = SERVERS[kind]()
    if _own[kind].process is None:
        _own[kind].start()
    return _own[kind]


def within_deadline(call: Callable[[], T], seconds: float = DEADLINE) -> T:
    """What `call` returns or raises. It fails the test where it would wait for ever."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((True, call()))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        where = "".join(traceback.format_stack(sys._current_frames()[thread.ident or 0]))
        raise AssertionError(f"the call still hangs after {seconds} s:\n{where}")
    returned, value = outcome[0]
    if returned:
        return value  # type: ignore[no-any-return]
    raise value
