"""Rounds of the same random operations on several stores: `python -m tests.differential --rounds 1000 --seed 7`.

Prints the shortest sequence of operations that each disagreement was brought down to. A round is its seed and number;
`--first` begins at another one than the first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from localqueue.contracts.differ import differ
from tests.differential.stores import KINDS, openers, quick_servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--operations", type=int, default=120, help="operations a round")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--stores", default=",".join(KINDS))
    given = parser.parse_args()
    kinds = given.stores.split(",")
    quick_servers(kinds)
    began, disagreed = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="localqueue-differential-") as folder:
        for number in range(given.first, given.first + given.rounds):
            found = differ(openers(kinds, Path(folder)), seed=f"{given.seed}/{number}", length=given.operations)
            if found is not None:
                disagreed += 1
                print(f"round {number}: {found}\n", flush=True)
            if number % 50 == 0:
                print(f"until round {number}: {disagreed} disagreed", file=sys.stderr, flush=True)
    took = time.monotonic() - began
    print(f"{disagreed} of {given.rounds} rounds disagreed ({', '.join(kinds)}; {took:.0f} s)")
    return 1 if disagreed else 0


if __name__ == "__main__":
    sys.exit(main())
