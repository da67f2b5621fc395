"""The path of a store that is a file or a directory."""

from __future__ import annotations

import os


def require_path(path: str | os.PathLike[str]) -> str:
    """A path as a text. An address is refused: it would become the name of a file, with its password."""
    text = os.fspath(path)
    if "://" in text or "=" in text:  # an address has one of them, and few paths need the module that reads addresses
        from localqueue.stores.address import is_address, shown

        if is_address(text):
            raise ValueError(f"{shown(text)!r} is an address and not the path of a file: open it with open_store(url)")
    return text
