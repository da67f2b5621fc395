"""The run that OpenLineage's listener tells of a Spark application, for those who tell of something within it.

The listener makes up the id of that run unless a setting names it, and nobody can ask for one that was made up. So a
session that is made here names it, and one that is not can be given `spark.openlineage.applicationRunId`.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
_RUN_ID = "spark.openlineage.applicationRunId"


class Run(NamedTuple):
    """A run as OpenLineage knows it."""

    namespace: str
    job: str
    run_id: str


def with_a_run(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session, which name the run of the application where the listener will be."""
    if LISTENER not in conf.get("spark.extraListeners", "") or _RUN_ID in conf:
        return dict(conf)
    return {**conf, _RUN_ID: str(uuid.uuid4())}


def run_of_application(spark: SparkSession) -> Run | None:
    """The run of this session's application; None where no setting names it."""
    settings: Any = spark.conf
    try:
        run_id = settings.get(_RUN_ID, None)
        if not run_id:
            return None
        name = settings.get("spark.openlineage.appName", None) or settings.get("spark.app.name", None) or "unknown"
        return Run(settings.get("spark.openlineage.namespace", None) or "default", _listed(name), run_id)
    except Exception:  # a session that knows nothing of such settings has no such run
        return None


def _listed(name: str) -> str:
    """The name of an application as the listener gives it: words in lower case with underscores between them."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.category(one).startswith("M"))
    bare = re.sub(r"^\W+|\W+$", "", plain, flags=re.ASCII)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])", " ", bare)
    return re.sub(r"[^a-z0-9]+", "_", words.lower())
