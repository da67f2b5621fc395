"""The statements of `sql/`, each by the name of its file in capitals, so that they can be read and explained without
running Python."""

from __future__ import annotations

import os

_FOLDER = os.path.join(os.path.dirname(__file__), "sql")


def load(name: str) -> str:
    with open(os.path.join(_FOLDER, f"{name}.sql"), encoding="utf-8") as file:
        return file.read()


def __getattr__(name: str) -> str:
    try:
        text = globals()[name] = load(name.lower())
    except FileNotFoundError:
        raise AttributeError(f"there is no statement {name}") from None
    return text
