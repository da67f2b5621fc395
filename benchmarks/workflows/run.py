"""Measure workflows beside other systems that have them, and beside plain messages, and print the tables.

python -m benchmarks.workflows.run [latency|at_once|overhead|shapes|patterns ...] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import signal
import sys
from pathlib import Path
from typing import Any

# In the place of this folder, where files have the names of packages.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from systems import DEFAULT_VENVS
from workflows.bench import Bench
from workflows.systems import POLL, find_systems

#: each is a module with `run(bench)`, which returns tables
TOPICS = ("latency", "at_once", "overhead", "shapes", "patterns")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="topic", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--systems", help="names with ; between them, or how they begin: measure only these")
    parser.add_argument("--poll", type=float, default=POLL, help="seconds between the looks of DBOS")
    parser.add_argument("--dir", help="where files are, for another disk than that of the temp directory")
    parser.add_argument("--venvs", type=Path, default=DEFAULT_VENVS, help="the peers' environments")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(TOPICS)):
        parser.error(f"there is no {', '.join(unknown)} (there are {', '.join(TOPICS)})")
    return arguments


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and workers end with this process
    systems = find_systems(arguments.venvs, poll=arguments.poll)
    if arguments.systems:
        wanted = tuple(arguments.systems.split(";"))
        systems = [system for system in systems if system.name.startswith(wanted)]
    if not systems:
        sys.exit(f"there is no system {arguments.systems!r}")
    bench = Bench(systems, arguments.venvs, directory=arguments.dir, quick=arguments.quick)
    print(f"Python {platform.python_version()}", flush=True)
    figures: dict[str, Any] = {}
    try:
        for topic in [topic for topic in TOPICS if topic in (arguments.names or TOPICS)]:
            for table in importlib.import_module(f"workflows.{topic}").run(bench):
                table.print()
                figures[table.title] = table.data
                if arguments.json:
                    arguments.json.write_text(json.dumps(figures, indent=2))
    finally:
        bench.close()
    if bench.failed:
        sys.exit("left out: " + "; ".join(f"{name} ({why})" for name, why in bench.failed.items()))


if __name__ == "__main__":
    main()
