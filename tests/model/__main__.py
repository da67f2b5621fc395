"""Search the model: `./script/model`.

Every state of every scene is looked at, and no property may be broken. Then each planted fault must break the one it is
there to break. `--show` tells the shortest way to a fault's counterexample.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.model.search import Fault, Scene, Verdict, missing_programs, search
from tests.model.table import FAULTS, QUICK, SCENES

_ROW = "{:<34} {:>10}  {}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./script/model", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small scenes, which every run of the tests searches")
    parser.add_argument("--show", metavar="FAULT", choices=[fault.name for fault in FAULTS], help="tell one fault")
    given = parser.parse_args(arguments)
    if missing := missing_programs():
        print(f"missing: {', '.join(missing)}. On Debian: apt-get install spin gcc libc6-dev", file=sys.stderr)
        return 1
    if given.show:
        (fault,) = (fault for fault in FAULTS if fault.name == given.show)
        print(search(fault.scene, fault.name))
        return 0
    began = time.monotonic()
    scenes = QUICK if given.quick else SCENES
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:  # each search is a process of its own
        print(_ROW.format("searched", "states", "found"))
        verdicts = pool.map(search, scenes)
        sound = [_report_scene(*one) for one in zip(scenes, verdicts, strict=True)]
        verdicts = pool.map(search, [fault.scene for fault in FAULTS], [fault.name for fault in FAULTS])
        found = [_report_fault(*one) for one in zip(FAULTS, verdicts, strict=True)]
    took = time.monotonic() - began
    print(f"{sum(sound)} of {len(scenes)} scenes sound, {sum(found)} of {len(FAULTS)} faults found, in {took:.0f} s")
    return 0 if all(sound) and all(found) else 1


def _report_scene(scene: Scene, verdict: Verdict) -> bool:
    outcome = "nothing" if verdict.broken is None else f"BROKEN\n{verdict}"
    print(_ROW.format(str(scene), f"{verdict.states:,}", outcome), flush=True)
    return verdict.broken is None


def _report_fault(fault: Fault, verdict: Verdict) -> bool:
    outcome = "nothing" if verdict.broken is None else f"{verdict.broken}, {verdict.steps} steps"
    if verdict.broken != fault.breaks:
        outcome += f"; NOT {fault.breaks}"
    print(_ROW.format(fault.name, f"{verdict.states:,}", outcome), flush=True)
    return verdict.broken == fault.breaks


if __name__ == "__main__":
    sys.exit(main())
