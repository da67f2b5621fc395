"""Very many messages at once: put in large batches and drained in small ones, by clients that are killed all the time.

The histories are a line for each batch, and one for each claim and each ack: what a million messages need.
"""

from __future__ import annotations

import itertools
import json
import signal
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from localqueue.errors import QueueError, QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest, Settle
from tests.chaos.history import NEVER, PagesOnDisk
from tests.chaos.report import Tally
from tests.chaos.scene import Scene, weight_of
from tests.chaos.verdicts.violation import Violation
from tests.stores import Place

BATCH, CLAIM = 5_000, 500
QUEUE, LEASE = "backlog", 5.0
_CREW = 3
_DEADLINE = 3600.0


# what children do


def stack(_: Callable[[], None], *, place: list[str], who: str, folder: str, batches: int) -> None:
    """Put batches, each in one transaction."""
    pages = PagesOnDisk(f"{folder}/{who}.stacked")
    with Place(*place).open(timeout=30.0) as store:
        for n in range(batches):
            batch = f"{who}-{n}"
            _note(pages, batch, BATCH, False)
            try:
                store.put_batch(QUEUE, [f"{batch}.{i}" for i in range(BATCH)], None)
            except QueueStoreUnavailableError:
                continue
            _note(pages, batch, BATCH, True)


def unstack(_: Callable[[], None], *, place: list[str], who: str, folder: str) -> None:
    """Claim and ack until there is nothing left."""
    pages = PagesOnDisk(f"{folder}/{who}.taken")
    with Place(*place).open(timeout=30.0) as store:
        while True:
            start = time.monotonic()
            try:
                leased = store.lease(LeaseRequest(QUEUE, CLAIM, LEASE))
                if not leased and store.stats(QUEUE).total == 0:
                    return
                if not leased:
                    time.sleep(0.05)
                    continue
                names = [message.payload for message in leased]
                _note(pages, "took", start, names)
                settles = [Settle(QUEUE, message.id, "ack", message.attempts) for message in leased]
                _note(pages, "acking", start, names)
                settled = store.commit(Changes(settle=settles, strict=False)).settled
                _note(pages, "acked", time.monotonic(), [n for n, done in zip(names, settled, strict=True) if done])
            except QueueError:
                time.sleep(0.02)


def _note(pages: PagesOnDisk, *fields: Any) -> None:
    pages.write(json.dumps(fields).encode() + b"\n")


# the one who watches


def build_and_drain(scene: Scene, tally: Tally, count: int) -> list[Violation]:
    """Put so many messages and drain them, with kills all the way; what was wrong about it."""
    folder, data = scene.new_folder("backlog"), scene.new_folder("backlog-data")
    place = scene.place(f"backlog-{tally.seed}")
    if scene.server is None:  # it may be more than the small disk of the other rounds holds
        place = Place(scene.kind, str(data / "store"), place.namespace)
    began = time.monotonic()
    chance, numbers = Random(f"{tally.seed}/backlog"), itertools.count()
    while (stored := sum(size for _, size, confirmed in _stacked(folder) if confirmed)) < count:
        batches = min(20, -(-(count - stored) // (BATCH * _CREW)))
        _shift(scene, chance, [{"batches": batches} for _ in range(_CREW)], "stack", place, folder, numbers)
        if time.monotonic() - began > _DEADLINE:
            return [Violation("stuck", f"only {stored} of {count} messages could be put")]
    put = time.monotonic() - began
    heaviest = _weight(scene, data)
    while not _shift(scene, chance, [{}] * _CREW, "unstack", place, folder, numbers):
        if time.monotonic() - began > _DEADLINE:
            return [Violation("stuck", f"{stored} messages could not be drained")]
    took = time.monotonic() - began - put
    tally.notes.append(
        f"a backlog of {stored:,} messages was put in {put:.0f} s and drained in {took:.0f} s; "
        f"on disk {heaviest / 1e6:.0f} MB at most, {_weight(scene, data) / 1e6:.0f} MB when it was drained"
    )
    return _judge(folder)


def _shift(
    scene: Scene,
    chance: Random,
    tasks: list[dict[str, Any]],
    job: str,
    place: Place,
    folder: Path,
    numbers: Iterator[int],
) -> bool:
    """Let some clients work until one of them is done, or for a while until they are killed; whether one was done."""
    for task in tasks:
        scene.nursery.hire(job, place=place, who=f"w{next(numbers)}", folder=str(folder), **task)
    end, done = time.monotonic() + chance.uniform(0.5, 4.0), False
    while scene.nursery.children:
        for gone in scene.nursery.look(max(0.0, end - time.monotonic()) if not done else 0.05):
            scene.counts["kills"] += gone.signal == signal.SIGKILL
            done |= gone.status == 0
        if (done and job == "unstack") or time.monotonic() >= end:
            for child in list(scene.nursery.children.values()):
                child.send(signal.SIGKILL)
    return done


def _weight(scene: Scene, data: Path) -> int:
    return weight_of(data) if scene.server is None else scene.weight()


def _lines(folder: Path, kind: str) -> Iterator[list[Any]]:
    for path in sorted(folder.glob(f"*.{kind}")):
        for line in path.read_bytes().splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # killed within the line
                continue


def _stacked(folder: Path) -> list[tuple[str, int, bool]]:
    """The batches, and whether each was confirmed."""
    found: dict[str, tuple[int, bool]] = {}
    for batch, size, confirmed in _lines(folder, "stacked"):
        found[batch] = size, confirmed
    return [(batch, size, confirmed) for batch, (size, confirmed) in found.items()]


def _judge(folder: Path) -> list[Violation]:
    """Every message of a confirmed batch was taken, none was taken after its ack, and no batch is there in part."""
    batches = _stacked(folder)
    acked = {batch: array("d", [NEVER]) * size for batch, size, _ in batches}
    maybe = {batch: bytearray(size) for batch, size, _ in batches}
    seen = {batch: bytearray(size) for batch, size, _ in batches}
    found: list[Violation] = []
    for verb, at, names in _lines(folder, "taken"):
        for name in names:
            batch, _, n = name.rpartition(".")
            if batch not in seen:
                found.append(Violation("ghost", f"nobody put {name}"))
            elif verb == "took":
                seen[batch][int(n)] = 1
            elif verb == "acking":
                maybe[batch][int(n)] = 1
            elif acked[batch][int(n)] < NEVER:
                found.append(Violation("doubling", f"{name} was acked twice"))
            else:
                acked[batch][int(n)] = at
    for verb, at, names in _lines(folder, "taken"):
        for name in names if verb == "took" else ():
            batch, _, n = name.rpartition(".")
            if batch in acked and acked[batch][int(n)] < at:
                found.append(Violation("doubling", f"{name} was delivered after its ack was confirmed"))
    for batch, size, confirmed in batches:
        arrived = sum(seen[batch])
        if 0 < arrived < size:
            found.append(Violation("torn", f"{arrived} of {size} messages of batch {batch} arrived"))
        if confirmed and sum(maybe[batch]) < size:
            found.append(Violation("loss", f"{size - sum(maybe[batch])} messages of batch {batch} are gone"))
    return found
