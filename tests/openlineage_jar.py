"""OpenLineage's listener for Spark, for the tests: one jar that has all it needs, 42 MB.

`python -m tests.openlineage_jar` puts it into the user's cache folder where it is missing; `./script/servers` calls it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from localqueue.spark.java import NoJava
from tests import maven_jars

VERSION = "1.53.0"


def home() -> Path:
    return maven_jars.cache() / f"openlineage-spark-{VERSION}"


def jar() -> str | None:
    """The path of the jar; None when it was not fetched."""
    return next(map(str, home().glob("*.jar")), None)


if __name__ == "__main__":
    try:
        maven_jars.install(home(), [f"io.openlineage:openlineage-spark_2.13:{VERSION}"])
    except (NoJava, FileNotFoundError) as error:
        sys.exit(str(error))
