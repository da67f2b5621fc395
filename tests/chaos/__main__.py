"""Break everything, and see whether a promise breaks: `python -m tests.chaos sqlite 10 some-seed`.

Rounds follow each other until the minutes are over. What is going to happen in a round is decided by the seed and its
number: `--first 7 --rounds 1` does that one again. Exits with 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.chaos import soak
from tests.chaos.backlog import build_and_drain
from tests.chaos.plan import FAULTS, Plan
from tests.chaos.report import Tally, line, markdown
from tests.chaos.round import Round
from tests.chaos.scene import Scene
from tests.chaos.workload import AREAS
from tests.stores import SHARED

#: Seconds of a round: a server that was killed needs some to come back.
_SECONDS = {"sqlite": 8.0, "lmdb": 8.0, "postgres": 12.0, "redis": 10.0, "mongodb": 20.0}
_ALL_FAULTS = ("skew", *FAULTS["local"], *FAULTS["server"])


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # not without cleaning up
    given = _arguments()
    tallies = []
    for kind in SHARED if given.store == "all" else (given.store,):
        tally = Tally(kind, given.seed)
        tallies.append(tally)
        with Scene(kind) as scene:
            tally.counts = scene.counts
            _campaign(scene, tally, given)
        print(f"{kind}: {tally.operations:,} operations, {tally.counts['kills']:,} kills, violations: {tally.kinds}")
    text = markdown(tallies)
    if given.report:
        given.report.write_text(text)
    print(f"\n{text}")
    return 1 if any(tally.violations for tally in tallies) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("store", nargs="?", default="sqlite", choices=[*SHARED, "all"])
    parser.add_argument("minutes", nargs="?", type=float, default=2.0, help="for each store")
    parser.add_argument("seed", nargs="?", default=secrets.token_hex(3))
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--rounds", type=int, help="so many rounds, however long they take")
    parser.add_argument("--crew", type=int, default=5, help="clients at a time")
    parser.add_argument("--without", action="append", default=[], choices=_ALL_FAULTS, help="something not to break")
    parser.add_argument("--area", action="append", default=[], choices=list(AREAS), help="what clients are about")
    parser.add_argument("--messages", type=int, default=0, help="also put so many at once, and drain them")
    parser.add_argument("--soak", action="store_true", help="a steady load instead, and how memory and disk grow")
    parser.add_argument("--keep", type=Path, help="keep the histories of rounds that broke a promise in this folder")
    parser.add_argument("--report", type=Path, help="write the report as Markdown to this file")
    return parser.parse_args()


def _campaign(scene: Scene, tally: Tally, given: argparse.Namespace) -> None:
    tally.disk, tally.memory = (scene.weight(),) * 2, (scene.memory(),) * 2
    if given.soak:
        tally.notes += soak.run(scene, tally, given.minutes * 60.0)
        return
    faults = frozenset(_ALL_FAULTS) - set(given.without)
    end = time.monotonic() + given.minutes * 60.0
    for number in itertools.count(given.first):
        done = number - given.first
        if done >= given.rounds if given.rounds is not None else time.monotonic() > end:
            break
        plan = Plan(scene.kind, given.seed, number, _SECONDS[scene.kind], faults, given.crew, tuple(given.area))
        outcome = Round(scene, plan).run()
        tally.add(outcome)
        if outcome.violations and given.keep:
            shutil.copytree(outcome.folder, given.keep / f"{scene.kind}-{plan.seed}-{number}", dirs_exist_ok=True)
        print(line(outcome, scene.counts), flush=True)
        for violation in outcome.violations[:3]:
            print(str(violation)[:3000], file=sys.stderr, flush=True)
        if done == 0:
            tally.disk = (scene.weight(), 0)
    if given.messages:
        tally.violations += (("backlog", violation) for violation in build_and_drain(scene, tally, given.messages))
    tally.disk, tally.memory = (tally.disk[0], scene.weight()), (tally.memory[0], scene.memory())


if __name__ == "__main__":
    sys.exit(main())
