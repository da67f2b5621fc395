"""The statements of `sql/`, by file name, with the schema of the store in the place of `localqueue`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"
DEFAULT_SCHEMA = "localqueue"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")


def require_schema(name: str) -> str:
    """A name that needs no quoting and leaves room for the longer names that are made of it."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(
            "schema must be at most 40 lower-case letters, digits and underscores that begin with a letter, "
            f"not {name!r}"
        )
    return name


def in_schema(text: str, schema: str) -> str:
    """The text with its tables and functions looked for in that schema."""
    return text if schema == DEFAULT_SCHEMA else text.replace("localqueue.lq_", f'"{require_schema(schema)}".lq_')


@cache
def _load(name: str, schema: str) -> str:
    return in_schema((_FOLDER / f"{name}.sql").read_text(encoding="utf-8").strip(), schema)


class Statements:
    """`statements.PUT_ONE` is the text of `sql/put_one.sql`."""

    def __init__(self, schema: str) -> None:
        self.schema = require_schema(schema)

    def __getattr__(self, name: str) -> str:
        text = _load(name.lower(), self.schema)
        setattr(self, name, text)
        return text

    def here(self, text: str) -> str:
        return in_schema(text, self.schema)


def migration_files() -> list[Path]:
    """The files that bring a schema up, in the order of their numbers."""
    return sorted((_FOLDER / "migrations").glob("*.up.sql"))
