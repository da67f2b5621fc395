"""The function library: the files of `lua/` in one text, under a name that is a digest of it.

So processes of different releases can share a server, each calling the functions it was written with, and loading is
safe however many do it at once. What they share, the data, has a version of its own (`VERSION` in `base.lua`).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"
_FILES = (
    *("base", "undo", "message", "line", "timers", "counts", "enqueue", "dependencies", "settle", "records", "lease"),
    *("finish", "reads", "waiting", "operate", "check", "hot", "library"),
)
_SOURCE = "\n".join((_FOLDER / f"{name}.lua").read_text(encoding="utf-8") for name in _FILES)
_DIGEST = hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]
_PREFIX = f"localqueue_{_DIGEST}_"

TEXT = f"#!lua name=localqueue_{_DIGEST}\nlocal PREFIX = '{_PREFIX}'\n{_SOURCE}"

#: The functions by the names they are registered under in `library.lua`, as the server knows them.
FULL_NAMES = {
    name: f"{_PREFIX}{name}".encode()
    for name in re.findall(r"^(?:register|write|read)\('(\w+)'", _SOURCE, re.MULTILINE)
}
