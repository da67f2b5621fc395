"""What a view is of, as a note in its folder, and what may become of it: a wider schema, or a new build."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from localqueue.spark.jobs.archive_layout import MARKER
from localqueue.spark.jobs.files import Folder

#: What only another path can change, and what a new build can.
_FIXED = ("format", "namespace", "queue")
_BUILT = ("key", "sql", "schema")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a view is of. `build` counts how often it was begun anew; entries up to `past` come from its own folder."""

    format: str
    namespace: str
    queue: str
    key: str | None
    sql: str | None
    schema: str | None
    build: int = 1
    past: int = 0

    @property
    def checkpoint(self) -> str:
        return "_checkpoint" if self.build == 1 else f"_checkpoint-{self.build}"

    @property
    def history(self) -> str:
        """The folder with what came from an archive."""
        return f"history-{self.build}"


def shape_at(folder: Folder) -> Shape | None:
    """The shape of the view in a folder, None when it has none."""
    text = folder.read(MARKER)
    try:
        values = json.loads(text or "")
        return Shape(**values) if values.pop("localqueue") == "view" else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def note(folder: Folder, shape: Shape) -> None:
    folder.replace(MARKER, json.dumps({"localqueue": "view", **asdict(shape)}, indent=2) + "\n")


def claim(folder: Folder, wanted: Shape, *, rebuild: bool) -> Shape:
    """Make the folder a view of this, or see that it is one or can become one; ValueError when it can not."""
    found = shape_at(folder)
    if found is None:
        there = [entry.name for entry in folder.entries() if not entry.name.startswith(".")]
        if there:
            raise ValueError(f"{folder.uri} is not a view and not empty ({there[0]} is there): give another path")
        note(folder, wanted)
        return wanted
    shape = evolved(found, wanted, folder.uri, rebuild=rebuild)
    if shape != found:
        note(folder, shape)
    return shape


def evolved(found: Shape, wanted: Shape, uri: str, *, rebuild: bool) -> Shape:
    """What a view that is `found` becomes when `wanted` is asked for; ValueError when it can not."""
    differs = [name for name in (*_FIXED, *_BUILT) if getattr(found, name) != getattr(wanted, name)]
    fixed = [name for name in differs if name in _FIXED]
    if rebuild and not fixed:
        return replace(wanted, build=found.build + 1)
    if not differs:
        return found
    if differs == ["schema"] and found.sql is None and _is_wider(wanted.schema, found.schema):
        return replace(found, schema=wanted.schema)
    name = (fixed or differs)[0]
    way = "give another path" if fixed else "give another path, or have it built anew (rebuild)"
    raise ValueError(f"{uri} is a view with {name} {getattr(found, name)!r} and not {getattr(wanted, name)!r}: {way}")


def _is_wider(new: str | None, old: str | None) -> bool:
    """Whether a schema has all fields of another with their types, and more."""
    from pyspark.sql.types import StructType

    if new is None or old is None:
        return False
    wide, narrow = StructType.fromDDL(new), StructType.fromDDL(old)
    assert isinstance(wide, StructType) and isinstance(narrow, StructType)
    types = {field.name: field.dataType for field in wide}
    return all(types.get(field.name) == field.dataType for field in narrow)
