"""Run the benchmarks of the stores that are servers and print their tables.

python benchmarks/servers.py [postgres|redis|mongodb ...] [--quick] [--only put,get,worker,wake,...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from on_servers.bench import ServerBench
from on_servers.places import PLACES
from on_servers.systems import KINDS, find_systems
from systems import DEFAULT_VENVS

#: what can be asked for, and the module that measures it; one module may measure two things in the same turns
TOPICS = {
    "put": "one_at_a_time",
    "get": "one_at_a_time",
    "bulk": "many_at_a_time",
    "worker": "many_at_a_time",
    "wake": "wake",
    "tasks": "tasks",
    "journal": "journal",
    "flat": "flat",
    "snapshot": "snapshot",
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="server", help=", ".join(KINDS))
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--only", default=",".join(TOPICS), help=f"comma separated: {','.join(TOPICS)}")
    parser.add_argument("--systems", help="names with ; between them: measure only these")
    parser.add_argument("--minutes", type=float, help="how long the old snapshot is held open (default: 1, full: 10)")
    parser.add_argument("--dir", help="where the servers keep their data (default: the temp directory)")
    parser.add_argument("--venvs", type=Path, default=DEFAULT_VENVS, help="the peers' environments")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    arguments.wanted = set(arguments.only.split(","))
    for given, known in ((arguments.kinds, KINDS), (arguments.wanted, TOPICS)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"there is no {', '.join(unknown)} (there are {', '.join(known)})")
    if arguments.minutes is None:
        arguments.minutes = 0.25 if arguments.quick else 1.0
    return arguments


def measure(kind: str, arguments: argparse.Namespace, figures: dict[str, Any]) -> None:
    places = PLACES[kind]()
    try:
        print(f"\n{places.version()} ({places.settings}), Python {platform.python_version()}, medians", flush=True)
        systems = find_systems(kind, arguments.venvs)
        only = arguments.systems.split(";") if arguments.systems else ()
        if only:
            systems = [system for system in systems if system.name in only]
        bench = ServerBench(
            *(kind, places, systems),
            quick=arguments.quick,
            minutes=arguments.minutes,
            venvs=arguments.venvs,
            only=only,
        )
        for module in dict.fromkeys(TOPICS[topic] for topic in TOPICS if topic in arguments.wanted):
            for table in importlib.import_module(f"on_servers.{module}").run(bench, arguments.wanted):
                table.print()
                figures[table.title] = table.data
                if arguments.json:
                    arguments.json.write_text(json.dumps(figures, indent=2))
    finally:
        places.stop()


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers are stopped on the way out
    if arguments.dir:
        tempfile.tempdir = arguments.dir
    figures: dict[str, Any] = {}
    for kind in arguments.kinds or KINDS:
        measure(kind, arguments, figures)


if __name__ == "__main__":
    main()
