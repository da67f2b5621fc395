"""What a view is of, as a note in its folder and its table, and what may become of it: a wider schema, a new build."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from localqueue.spark.jobs.archive_layout import MARKER
from localqueue.spark.jobs.files import Folder
from localqueue.spark.jobs.lake_table import LakeTable

#: The property of a table of a catalog that says what it is a view of.
NOTE = "localqueue.view"
#: What only another place can change, and what a new build can.
_FIXED = ("table", "format", "namespace", "queue")
_BUILT = ("key", "sql", "schema")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a view is of. `build` counts how often it was begun anew; entries up to `past` come from its own folder.

    With a `table` of a catalog the folder has all but the rows.
    """

    format: str
    namespace: str
    queue: str
    key: str | None
    sql: str | None
    schema: str | None
    build: int = 1
    past: int = 0
    table: str | None = None

    def text(self, *, indent: int | None = 2) -> str:
        return json.dumps({"localqueue": "view", **asdict(self)}, indent=indent)

    @property
    def checkpoint(self) -> str:
        return "_checkpoint" if self.build == 1 else f"_checkpoint-{self.build}"

    @property
    def history(self) -> str:
        """The folder with what came from an archive."""
        return f"history-{self.build}"


def shape_at(folder: Folder) -> Shape | None:
    """The shape of the view in a folder, None when it has none."""
    return _shape_of(folder.read(MARKER))


def shape_of_table(table: LakeTable, wanted: Shape) -> Shape | None:
    """The shape of the view that a table is, None when there is none; ValueError when it can not become this one."""
    if not table.exists:
        return None
    found = _shape_of(table.note(NOTE))
    if found is None:
        raise ValueError(f"{table.uri} is not a view, it has no property {NOTE}: give another table")
    found = replace(found, table=wanted.table, past=0)  # whatever its name and its folder were
    evolved(found, wanted, table.uri, rebuild=True, place="table")
    return found


def _shape_of(text: str | None) -> Shape | None:
    try:
        values = json.loads(text or "")
        return Shape(**values) if values.pop("localqueue") == "view" else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def note(folder: Folder, shape: Shape) -> None:
    folder.replace(MARKER, shape.text() + "\n")


def claim(folder: Folder, shape: Shape) -> None:
    """Make the folder a view of this; ValueError when it is something else."""
    found = shape_at(folder)
    if found is None:
        there = [entry.name for entry in folder.entries() if not entry.name.startswith(".")]
        if there:
            another = "path" if shape.table is None else "checkpoint"
            raise ValueError(f"{folder.uri} is not a view and not empty ({there[0]} is there): give another {another}")
    if shape != found:
        note(folder, shape)


def evolved(found: Shape, wanted: Shape, uri: str, *, rebuild: bool, place: str = "path") -> Shape:
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
    way = f"give another {place}" if fixed else f"give another {place}, or have it built anew (rebuild)"
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
