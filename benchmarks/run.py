"""Run benchmarks and print their tables.

python benchmarks/run.py [names ...] [--quick] [--only SYSTEM ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sqlite3
from pathlib import Path
from typing import Any

from harness import Bench
from systems import DEFAULT_VENVS, find_systems

NAMES = [
    "startup",
    "one_at_a_time",
    "put_many",
    "batched",
    "contention",
    "idle_consumers",
    "wake_latency",
    "workers",
    "worker_latency",
    "notification_latency",
    "worker_features",
    "tasks",
    "file_size",
    "flatness",
]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="names", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--only", action="append", help="measure only this system (repeatable)")
    parser.add_argument(
        "--force-normal",
        action="store_true",
        help="bring persist-queue and huey, which sync every commit, to synchronous=NORMAL",
    )
    parser.add_argument("--dir", help="where the files are made (default: the temp directory)")
    parser.add_argument("--venvs", type=Path, default=DEFAULT_VENVS, help="the peers' environments")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(NAMES)})")
    return arguments


def main() -> None:
    arguments = parse()
    bench = Bench(
        find_systems(arguments.venvs, arguments.only, force_normal=arguments.force_normal),
        directory=arguments.dir,
        quick=arguments.quick,
        venvs=arguments.venvs,
        only=arguments.only or (),
    )
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, medians")
    figures: dict[str, Any] = {}
    try:
        for name in arguments.names or NAMES:
            for table in importlib.import_module(name).run(bench):
                table.print()
                figures[table.title] = table.data
                if arguments.json:
                    arguments.json.write_text(json.dumps(figures, indent=2))
    finally:
        bench.close()


if __name__ == "__main__":
    main()
