"""Computing the small tables of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from localqueue.spark.jobs.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Up to so many rows one task is faster than several that have to exchange theirs.
_SMALL = 50_000


def at_hand(kept: DataFrame) -> DataFrame:
    """The same rows of a DataFrame that is persisted, and if they are few, as a table of its own.

    One partition needs no shuffle, and without their origin the rows make plans that are short to think about.
    """
    if kept.count() > _SMALL:
        return kept
    return kept.sparkSession.createDataFrame(kept.toArrow(), kept.schema).coalesce(1)


def computed(made: Mapping[str, Callable[[], DataFrame]], say: Progress) -> dict[str, pa.Table]:
    """Each table by its name, which `say` hears before it is computed."""
    found = {}
    for name, table in made.items():
        say(name.replace("_", " "))
        found[name] = table().toArrow()
    return found
