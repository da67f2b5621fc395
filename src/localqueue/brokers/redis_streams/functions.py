"""The functions that the server runs for this broker, and the connections that know them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from localqueue.errors import QueueStoreError
from localqueue.stores.redis.connection import Connections
from localqueue.stores.redis.errors import code_of

_FOLDER = Path(__file__).parent / "lua"
_SOURCE = "\n".join(
    (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    for name in ("base", "send", "receive", "settle", "operations")
)
_DIGEST = hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]
_PREFIX = f"localqueue_streams_{_DIGEST}_"

#: Its name is a digest of its text, so releases share a server and each calls its own.
LIBRARY = f"#!lua name=localqueue_streams_{_DIGEST}\nlocal PREFIX = '{_PREFIX}'\n{_SOURCE}".encode()

#: The functions by the names they have in `lua/`, as the server knows them.
FUNCTIONS = {name: f"{_PREFIX}{name}".encode() for name in re.findall(r"PREFIX \.\. '(\w+)'", _SOURCE)}

LEAST = "+@stream +@sortedset +exists +del +time +fcall +fcall_ro +function|load +ping +select ~<queue> ~{<queue>}:*"


class StreamConnections(Connections):
    """The way to a server whose streams are queues."""

    def __init__(self, url: str, shown: str, *, timeout: float) -> None:
        super().__init__(url, timeout=timeout, library=LIBRARY)
        self.shown = shown

    def translate(self, error: Exception) -> QueueStoreError:
        if code_of(error) == "NOPERM":
            return QueueStoreError(
                f"the user of the Redis server at {self.shown} may not do all that is needed: {error}. "
                f"All the words that are needed: {LEAST}",
                path=self.shown,
            )
        return super().translate(error)
