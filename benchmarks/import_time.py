"""How long `import localqueue` takes: fresh interpreters with it and without it, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from harness import Bench, Table

RUNS = 20


def seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def run(bench: Bench | None = None) -> list[Table]:
    seconds("import localqueue")
    pairs = [(seconds("pass"), seconds("import localqueue")) for _ in range(RUNS)]
    bare, full = (statistics.median(side) for side in zip(*pairs, strict=True))
    row = [f"median of {RUNS}", *(f"{s * 1000:.1f} ms" for s in (bare, full, full - bare))]
    columns = ["", "bare interpreter", "with the import", "the import"]
    data = {"import_seconds": full - bare}
    return [Table("import localqueue", columns, [row], data)]


if __name__ == "__main__":
    for table in run():
        table.print()
