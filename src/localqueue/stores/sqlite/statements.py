"""The statements of `sql/`, each by the name of its file in capitals, so that they can be read and explained without
running Python."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


def load(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def __getattr__(name: str) -> str:
    try:
        text = globals()[name] = load(name.lower())
    except FileNotFoundError:
        raise AttributeError(f"there is no statement {name}") from None
    return text
