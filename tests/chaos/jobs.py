"""What the processes of a round do, each in a child of the nursery."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from localqueue.stores.engine.unit import Unit
from localqueue.stores.sqlite import MemoryQueueStore
from tests.chaos.drain import Stuck, drain, final_of
from tests.chaos.history import PagesOnDisk, read_folder
from tests.chaos.journal import replay_journal
from tests.chaos.scene import weight_of
from tests.chaos.staff import Staff
from tests.chaos.workload import AREAS, Duties, run_in_process
from tests.clocks import Offset, set_clock
from tests.crash.stores import kill_at, watch_edges
from tests.disks import limit_file_size
from tests.stores import Place

#: What a job calls when it has begun.
Ready = Callable[[], None]

#: An operation that takes longer than this hangs.
DEADLINE = 40.0

#: Inside of a write transaction of a store in a file, or of one on the engine: where a process can be stopped for good.
EDGES = {
    "sqlite": ("begun", "applied", "committed"),
    "lmdb": ("begun", "applied", "committed"),
    "postgres": ("flushed",),
    "mongodb": ("flushed",),
    "redis": (),
}
_PAUSE = 0.01  # after a call that failed
_LIVES = 20.0


def warm_up() -> None:
    """Load what is loaded on first use, here and not in each child."""
    import lmdb
    import psycopg
    import psycopg.rows
    import pymongo
    import redis

    from localqueue.stores import lmdb as ours
    from localqueue.stores import mongodb, postgres, sqlite
    from localqueue.stores import redis as redis_store

    assert all((lmdb, psycopg, pymongo, redis, ours, sqlite, postgres, redis_store, mongodb))
    _quick_look_at_mongodb()
    logging.disable()  # of handlers that fail on purpose, with errors of any length
    run_in_process(lambda namespace, clock: MemoryQueueStore(namespace=namespace), seed="warm", steps=60, areas=AREAS)


def _quick_look_at_mongodb() -> None:
    """After each break the driver takes up to half a second to look at the server again. Here it breaks a lot."""
    import pymongo.common
    import pymongo.network_layer

    pymongo.common.MIN_HEARTBEAT_INTERVAL = 0.02
    pymongo.network_layer._POLL_TIMEOUT = 0.02


@contextlib.contextmanager
def watched(folder: str, who: str) -> Iterator[Callable[[], None]]:
    """Stacks are written to a file when the process hangs, which ends it, or is asked by a signal. Call what this
    yields to say that it does not hang."""
    with open(f"{folder}/{who}.stacks", "w") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        said = 0.0

        def alive() -> None:
            nonlocal said
            now = time.monotonic()
            if now - said > 1.0:
                faulthandler.dump_traceback_later(DEADLINE, exit=True, file=stacks)
                said = now

        alive()
        yield alive
        faulthandler.cancel_dump_traceback_later()


def client(
    ready: Ready,
    *,
    place: list[str],
    letter: str,
    who: str,
    seed: str,
    folder: str,
    areas: list[str],
    point: str | None,
    nth: int,
    acts: int,
    ahead: float,
    clock: str | None,
    full: bool,
    journal: bool,
) -> None:
    """Do one thing after the other until killed, or for so many things."""
    if full:
        limit_file_size(_largest(Path(place[1]).parent))
    die = None if point is None else kill_at(point, nth)
    options = _set_clock(ahead, clock)
    duties = Duties(areas)
    with watched(folder, who) as alive:
        one = Staff(
            None,
            who,
            PagesOnDisk(f"{folder}/{who}.history"),
            Random(f"{seed}/{who}"),
            namespace=letter,
            claimed=duties.claimed,
            reach=die or (lambda point: None),
        )
        one.timeouts = (0.1, 0.4, 1.0)

        def enter() -> None:
            if one.store is None:
                one.store = Place(*place).open(timeout=10.0, **options)
            if journal and not one.store.journal_enabled():
                one.store.enable_journal()

        deadline = time.monotonic() + _LIVES
        while one.ask("open", enter).answer != "ok":
            alive()
            time.sleep(_PAUSE)
            if time.monotonic() > deadline:
                return
        if die is not None:
            _watch(one.store, place[0], die)
        ready()
        for _ in range(acts):
            alive()
            failures = one.failures
            duties.act(one)
            if one.failures > failures:
                time.sleep(_PAUSE)
        one.store.close()


def _largest(folder: Path) -> int:
    return max((path.stat().st_size for path in folder.rglob("*") if path.is_file()), default=0)


def _set_clock(ahead: float, clock: str | None) -> dict[str, Any]:
    """Have a wrong clock; what a store is to be opened with for it."""
    if clock is not None:
        real = time.time
        offset = Offset(Path(clock))
        set_clock(offset)
        return {"clock": lambda: real() + offset()}
    if ahead:
        set_clock(lambda: ahead)
    return {}


def _watch(store: Any, kind: str, die: Callable[[str], None]) -> None:
    """Have the points inside of transactions told."""
    if kind in ("sqlite", "lmdb"):
        watch_edges(store, die)
        return
    flush = Unit.flush

    def flushed(unit: Unit) -> None:
        wrote = unit.writes.any()
        flush(unit)
        if wrote:
            die("flushed")

    Unit.flush = flushed  # type: ignore[method-assign]


def finish(
    _: Ready, *, places: dict[str, list[str]], folder: str, seconds: float, clock: str | None, journalled: str
) -> None:
    """Drain both namespaces and write down what is left, and what is wrong with the journal of one of them."""
    options = _set_clock(0.0, clock)
    stuck: list[str] = []
    with watched(folder, "finish") as alive:
        stores = {letter: Place(*place).open(timeout=30.0, **options) for letter, place in places.items()}
        alive()
        problems = [f"{letter}, before it was drained: {p}" for letter, s in stores.items() for p in s.check().problems]
        for letter, store in stores.items():
            who = f"drain-{letter}"
            notebook = PagesOnDisk(f"{folder}/{who}.history")
            one = Staff(store, who, notebook, Random(who), namespace=letter)
            since = [time.monotonic()]

            def patient(progress: bool, since: list[float] = since) -> bool:
                alive()
                if not progress:
                    time.sleep(0.03)
                return time.monotonic() - since[0] < seconds

            try:
                drain(one, patient, alive)
            except Stuck as error:
                stuck.append(str(error))
        final = final_of(stores, alive)
        final.journal = replay_journal(stores[journalled], read_folder(Path(folder)), alive)
        _, entries = stores[journalled].journal_span()
        stores[journalled].disable_journal()
        stores[journalled].prune_events(older_than=0.0)
        for letter, queue in {(one.namespace, one.queue) for one in final.held}:
            alive()
            stores[letter].purge(queue)  # so that what the store keeps growing by shows
        for store in stores.values():
            store.close()
    told = {
        "held": final.held,
        "records": sorted(final.records),
        "dropped": [[*place, count] for place, count in final.dropped.items()],
        "problems": [*problems, *final.problems],
        "journal": final.journal,
        "entries": entries,
        "stuck": stuck,
    }
    Path(folder, "final.json").write_text(json.dumps(told))


def fill_disk(_: Ready, *, folder: str) -> None:
    """Write until there is no room left."""
    with contextlib.suppress(OSError), open(f"{folder}/ballast", "ab", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(size)) == size:
                    pass


def free_disk(_: Ready, *, folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/ballast")


def set_read_only(_: Ready, *, folder: str, read_only: bool) -> None:
    """Take away the permission to write in a folder and to everything there, or give it back."""
    for path in (Path(folder), *Path(folder).rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # not made yet, or removed meanwhile
            writes = 0o222 if not read_only else 0
            path.chmod((0o555 if path.is_dir() else 0o444) | writes)


def weigh(_: Ready, *, folder: str, result: str) -> None:
    """Write down how many bytes a folder has on a disk that only children see."""
    Path(result).write_text(str(weight_of(Path(folder))))


JOBS: dict[str, Callable[..., None]] = {
    job.__name__: job for job in (client, finish, fill_disk, free_disk, set_read_only, weigh)
}
