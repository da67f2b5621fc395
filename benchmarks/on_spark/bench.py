"""A Spark session, places for data, and turns: what every topic needs."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Table

ROOT = Path(__file__).parents[2]
JARS = [Path("/usr/share/java/sqlite-jdbc.jar"), Path("/usr/share/java/postgresql.jar")]
CORES = 2


def payload(number: int, rng: random.Random) -> dict[str, Any]:
    """A dict that is about 182 bytes of JSON."""
    return {
        "order_id": number,
        "customer": f"customer-{rng.randrange(100_000):06d}",
        "city": rng.choice(["Lisbon", "Oslo", "Kyoto", "Lima"]),
        "amount": round(rng.uniform(5, 500), 2),
        "note": f"{rng.getrandbits(320):080x}",
    }


class Bench:
    """The settings of a run. `rounds` gives each system its turn before any has a second one."""

    def __init__(self, *, rows: int, rounds: int, directory: str | None) -> None:
        self.rows = rows
        self.turns = rounds
        self.folder = Path(tempfile.mkdtemp(prefix="localqueue-bench-", dir=directory))
        self._postgres: Any = None
        self._spark: Any = None
        self._values: list[str] | None = None

    @property
    def spark(self) -> Any:
        if self._spark is None:
            from localqueue.spark import session

            os.environ["PYTHONPATH"] = str(ROOT / "benchmarks")  # for handlers that tasks import
            conf = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": str(CORES)}
            jars = [str(jar) for jar in JARS if jar.exists()] + connector_jars()
            if jars:
                conf["spark.jars"] = ",".join(jars)
            self._spark = session("benchmarks", master=f"local[{CORES}]", conf=conf)
        return self._spark

    @property
    def postgres(self) -> str:
        """The address of a PostgreSQL of our own, with its defaults."""
        if self._postgres is None:
            sys.path.insert(0, str(ROOT))
            from tests.servers import Postgres, shared

            self._postgres = shared(Postgres)
        url: str = self._postgres.url
        return url

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The address of a new database: what one turn leaves behind must not slow the next one down."""
        import psycopg

        name = f"bench_{time.time_ns()}"
        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
            try:
                yield f"{self.postgres.rpartition('/')[0]}/{name}"
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
                connection.execute("CHECKPOINT")

    @property
    def values(self) -> list[str]:
        if self._values is None:
            rng = random.Random(1)
            self._values = [json.dumps(payload(number, rng), separators=(",", ":")) for number in range(self.rows)]
        return self._values

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        path = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def measure(self, systems: dict[str, Callable[[], float | None]]) -> dict[str, list[float]]:
        """Seconds of each system, round by round; the first round warms up. A system may time itself.

        Each round begins with another system: what one leaves for the disk to do slows down whoever comes next.
        """
        found: dict[str, list[float]] = {name: [] for name in systems}
        order = list(systems.items())
        for turn in range(self.turns + 1):
            first = turn % len(order)
            for name, run in order[first:] + order[:first]:
                begun = time.perf_counter()
                own = run()
                seconds = time.perf_counter() - begun if own is None else own
                print(f"  round {turn}: {name} {seconds:.2f} s", file=sys.stderr, flush=True)
                if turn:
                    found[name].append(seconds)
        return found

    def table(self, title: str, systems: dict[str, Callable[[], float | None]], against: dict[str, list[str]]) -> Table:
        """Rates of the systems, and their ratios to others: the median of the ratios within each round."""
        found = self.measure(systems)
        others = sorted({other for names in against.values() for other in names})
        rows = []
        data: dict[str, Any] = {}
        for name, seconds in found.items():
            rate = self.rows / statistics.median(seconds)
            row = [name, f"{statistics.median(seconds):.2f} s", f"{rate:,.0f} rows/s"]
            data[name] = {"rows_per_second": rate}
            for other in others:
                if other in against.get(name, []):
                    ratio = statistics.median(b / a for a, b in zip(seconds, found[other], strict=True))
                    data[name][f"of {other}"] = ratio
                    row.append(f"{ratio:.2f}")
                else:
                    row.append("")
            rows.append(row)
        return Table(title, ["", "median", "rate", *(f"of {other}" for other in others)], rows, data)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def connector_jars() -> list[str]:
    """Those of other connectors, where somebody has put them."""
    folder = os.environ.get("LOCALQUEUE_BENCH_JARS")
    return [] if folder is None else sorted(map(str, Path(folder).glob("*.jar")))


def noop(frame: Any) -> None:
    """Have Spark make every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
