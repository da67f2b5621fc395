"""Bulk puts, and each system's own worker with a handler that does nothing, on the same backlog.

First ours beside the raw ones, in many short turns; then the peers.
"""

from __future__ import annotations

from dataclasses import replace

from harness import Child, Samples, Table
from on_servers.bench import ServerBench, Turn, drain, offers
from on_servers.systems import BATCH, RAW, RAW_SAME
from on_servers.tables import rates
from on_servers.targets import RAW_BATCH, RAW_LOOP, judge
from systems import US, System

PUT_BATCH = 500
WORKER = f"{US} Worker, prefetch={BATCH}"
NOTE = "ours from its start to the last ack; a peer that starts slowly from its first handler to its last"

#: ours as it works, beside the one that is compared with others
WAYS = {
    f"{US} Worker": {},
    f"{US} AsyncWorker, prefetch={BATCH}": {"asynchronous": True, "prefetch": BATCH},
}


def turn(child: Child, n: int) -> Turn:
    done = Turn()
    if offers(child, "put_many"):
        n = -(-n // PUT_BATCH) * PUT_BATCH
        done.rates["bulk put"] = n / child.ask("put_many", n=n, batch=PUT_BATCH)["seconds"]
    else:
        child.ask("fill", n=n)
    if child.system.name not in (RAW, RAW_SAME):
        done.rates["worker"] = drain(child, n)
        return done
    if offers(child, "lease_many"):
        done.rates["batch"] = n / child.ask("get_ack_many", n=n, batch=BATCH)["seconds"]
        n //= 5
        child.ask("fill", n=n)
    done.rates["loop"] = n / child.ask("get_ack", n=n)["seconds"]
    return done


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    us = [replace(one, options={"prefetch": BATCH}) for one in bench.pick(US)]
    ways = [replace(one, name=name, options=options) for one in us for name, options in WAYS.items()]
    close = [*bench.pick(RAW, RAW_SAME), *us, *ways]
    peers = [system for system in bench.systems if system.name not in (RAW, RAW_SAME, US)]

    tables = measure(bench, wanted, close, (500, 6) if bench.quick else (1000, 30), "")
    if peers:
        sizes = (1000, 3) if bench.quick else (4000, 9)
        tables += measure(bench, wanted, [*bench.pick(RAW), *us, *peers], sizes, "peers, ", without=(RAW, RAW_BATCH))
    return tables


def measure(
    bench: ServerBench,
    wanted: set[str],
    systems: list[System],
    sizes: tuple[int, int],
    who: str,
    without: tuple[str, ...] = (),
) -> list[Table]:
    n, rounds = sizes
    samples = bench.interleave(
        systems, lambda child: turn(child, max(100, int(n * child.system.share))), rounds=rounds
    ).samples
    how = f"{who}{n} a turn, {rounds} rounds"
    tables: list[Table | None] = []
    if "bulk" in wanted and "bulk put" in samples:
        bulk = {name: rate for name, rate in samples["bulk put"].items() if name not in WAYS and "batch" not in name}
        tables.append(rates(f"{bench.kind}: bulk put, {PUT_BATCH} a call ({how})", bulk))
        tables.append(judge(bench.kind, "bulk put", bulk, US, without=without))
    if "worker" in wanted:
        workers = by_name(samples)
        title = f"{bench.kind}: workers, a handler that does nothing ({how})"
        tables.append(rates(title, workers, bases=(RAW_LOOP, RAW_BATCH), note=NOTE))
        tables.append(judge(bench.kind, "worker", workers, WORKER, without=without))
    return [table for table in tables if table is not None]


def by_name(samples: dict[str, Samples]) -> Samples:
    """Workers, and the loops by hand that stand beside them."""
    workers = {WORKER if name == US else name: rate for name, rate in samples.get("worker", {}).items()}
    for name, what, shown in (
        (RAW, "loop", RAW_LOOP),
        (RAW, "batch", RAW_BATCH),
        (RAW_SAME, "batch", f"{RAW_SAME}, {BATCH} at a time"),
    ):
        if name in samples.get(what, {}):
            workers[shown] = samples[what][name]
    return workers
