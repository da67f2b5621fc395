"""Measure the brokers beside their bare clients and print the tables.

python benchmarks/brokers/run.py [rabbitmq|kafka|redis_streams|pgmq|sqs ...] [--rounds 5] [--only-pairs]
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# In the place of this folder, where files have the names of packages.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.broker_servers import SQS, Kafka, RabbitMQ, pgmq_url
from tests.servers import Postgres, Redis

from brokers.turns import Turns
from harness import Table

#: The server of each broker, and the address on it.
SERVERS: dict[str, tuple[type, Callable[[Any], str]]] = {
    "rabbitmq": (RabbitMQ, lambda server: server.url),
    "kafka": (Kafka, lambda server: server.url),
    "redis_streams": (Redis, lambda server: server.url.replace("redis:", "redis+stream:", 1)),
    "pgmq": (Postgres, pgmq_url),
    "sqs": (SQS, lambda server: server.url),
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="broker", help=", ".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only-pairs", action="store_true", help="only what has a bare client beside it")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(SERVERS)):
        parser.error(f"there is no {', '.join(unknown)} (there are {', '.join(SERVERS)})")
    return arguments


def measure(name: str, arguments: argparse.Namespace) -> None:
    """A module has `NAME`, `TARGET` and `measure(url, turns)`, and may have more `tables(url)`."""
    module = importlib.import_module(f"brokers.{name}")
    make, address = SERVERS[name]
    server = make()
    server.start()
    try:
        url = address(server)
        rows = module.measure(url, Turns(arguments.rounds, module.TARGET))
        note = f"messages a second, medians of {arguments.rounds} rounds; the ratio is taken within a round"
        Table(module.NAME, list(Turns.columns), rows, note=note).print()
        if not arguments.only_pairs and hasattr(module, "tables"):
            for table in module.tables(url):
                table.print()
    finally:
        server.stop()


def main() -> None:
    arguments = parse()
    print(f"Python {platform.python_version()}")
    for name in arguments.names or SERVERS:
        if not Path(__file__).with_name(f"{name}.py").exists():
            continue
        measure(name, arguments)


if __name__ == "__main__":
    main()
