"""Prints how long workers take to settle again once their server is back: python -m tests.faults.resume_times [runs]"""

from __future__ import annotations

import logging
import statistics
import sys

from tests.faults.crews import restart
from tests.faults.ways import own_server
from tests.stores import SERVERS, on_server


def main(runs: int) -> None:
    logging.getLogger("localqueue").addHandler(logging.NullHandler())
    logging.lastResort = None
    print("seconds from the server being back to the next confirmed settle, median and worst of", runs)
    for kind in SERVERS:
        for how in ("kill", "shut_down"):
            server = own_server(kind)
            seen: list[dict[str, float]] = []
            for _ in range(runs):
                place = on_server(server)
                with place.open() as witness, place.open(timeout=1.0) as store:
                    seen.append(restart(server, store, witness, how))
            for name in seen[0]:
                values = [one[name] for one in seen]
                print(f"{kind:10} {how:10} {name:8} {statistics.median(values):6.2f} {max(values):6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
