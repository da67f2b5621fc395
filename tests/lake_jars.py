"""The jars of Iceberg and Delta for the tests, built for the Spark of the extra `lake`.

`python -m tests.lake_jars` puts them into the user's cache folder where they are missing; `./script/servers` calls it.
Of what Delta asks for, Spark has most in newer versions of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from localqueue.spark.java import NoJava
from localqueue.spark.jobs.lake_table import JARS
from tests import maven_jars

SPARK, DELTA = "4.1", JARS["delta"]["4.1"].rpartition(":")[2]
_WANTED = (
    JARS["iceberg"][SPARK],
    JARS["delta"][SPARK],
    f"io.delta:delta-storage:{DELTA}",
    f"io.delta:delta-kernel-api:{DELTA}",
    f"io.delta:delta-kernel-defaults:{DELTA}",
    f"io.delta:delta-kernel-unitycatalog:{DELTA}",
    "io.unitycatalog:unitycatalog-client:0.6.0",
)


def home() -> Path:
    versions = [JARS[format][SPARK].rpartition(":")[2] for format in ("iceberg", "delta")]
    return maven_jars.cache() / "-".join(("lake", SPARK, *versions))


def jars() -> list[str]:
    """The paths of the jars; none when they were not fetched."""
    return sorted(map(str, home().glob("*.jar")))


def install() -> None:
    """Fetch what is missing."""
    maven_jars.install(home(), _WANTED)


if __name__ == "__main__":
    try:
        install()
    except (NoJava, FileNotFoundError) as error:
        sys.exit(str(error))
