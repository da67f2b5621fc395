"""Run the benchmarks of the data pipeline and print their tables.

python benchmarks/pipeline.py [topic ...] [--rows 1000000] [--rounds 3] [--quick]

JDBC is measured where its drivers are (Debian: libxerial-sqlite-jdbc-java, libpostgresql-jdbc-java), other connectors
where LOCALQUEUE_BENCH_JARS names a folder with their jars.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

from on_spark.bench import Bench

TOPICS = ("reads", "sinks", "streams", "workers", "archive", "million", "connectors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], metavar="topic", help=", ".join(TOPICS))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="100,000 rows, two rounds")
    parser.add_argument("--dir", help="where the data goes (default: the temp directory)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.rounds = 100_000, 2
    bench = Bench(rows=given.rows, rounds=given.rounds, directory=given.dir)
    figures: dict[str, Any] = {}
    try:
        for topic in given.topics or TOPICS:
            for table in importlib.import_module(f"on_spark.{topic}").run(bench):
                table.print()
                figures[table.title] = table.data
                if given.json:
                    given.json.write_text(json.dumps(figures, indent=2))
    finally:
        bench.close()


if __name__ == "__main__":
    main()
