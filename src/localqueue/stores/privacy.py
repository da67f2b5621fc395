"""Messages are for the eyes of their owner: a new directory has the mode 0700 and a new file 0600, from its first
moment on and whatever the umask.

What is there already keeps the mode it was given. That is how a store is shared with others.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

FILE = 0o600
_DIRECTORY = 0o700


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a directory, and those above it, unless they are there."""
    try:
        os.mkdir(path, _DIRECTORY)
    except FileNotFoundError:
        parent = os.path.dirname(os.path.abspath(path))
        if parent == os.fspath(path):
            raise
        make_directory(parent)
        make_directory(path)
    except OSError:
        if not os.path.isdir(path):
            raise


def make_file(path: str | os.PathLike[str], *, like: str | os.PathLike[str] | None = None) -> None:
    """Make an empty file, unless there is one: also where a link leads to. It gets the mode of the file it is like."""
    with suppress(FileExistsError):
        made = os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
        try:
            if like is not None:
                with suppress(FileNotFoundError):
                    os.fchmod(made, stat.S_IMODE(os.stat(like).st_mode))
        finally:
            os.close(made)
