"""What the everyday imports cost: fresh interpreters with each of them and without, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from harness import Bench, Table

RUNS = 20
STATEMENTS = ["import localqueue", "import localqueue.policies", "from localqueue import PersistentQueue"]


def seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def run(bench: Bench | None = None) -> list[Table]:
    rounds = [[seconds(statement) for statement in ("pass", *STATEMENTS)] for _ in range(1 + RUNS)][1:]
    bare, *full = (statistics.median(side) for side in zip(*rounds, strict=True))
    rows = [
        [statement, *(f"{s * 1000:.1f} ms" for s in (bare, taken, taken - bare))]
        for statement, taken in zip(STATEMENTS, full, strict=True)
    ]
    columns = [f"median of {RUNS}", "bare interpreter", "with the import", "the import"]
    data = {"import_seconds": full[0] - bare, "queue_import_seconds": full[-1] - bare}
    return [Table("imports", columns, rows, data)]


if __name__ == "__main__":
    for table in run():
        table.print()
