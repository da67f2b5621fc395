"""One Spark session for all tests of this folder that a test process runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import s3_jars


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs a session is a Spark test; what is plain Python here belongs to the quick tier.

    Those that start a Spark of their own come first, so that no process is left with a long one at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # the first one also starts the session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from localqueue.spark import session

    folder = tmp_path_factory.mktemp("spark")
    spark = session(
        "tests",
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            # Tests are many short jobs: compiling them well costs more than running them badly.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.jars": ",".join(s3_jars.jars()),
        },
    )
    yield spark
    spark.stop()
