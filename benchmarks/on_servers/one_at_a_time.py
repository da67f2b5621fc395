"""put, and lease + ack, one message and one commit at a time, with the time of each call.

First ours beside the raw ones, in many short turns, which is what their small distance asks for; then the peers.
"""

from __future__ import annotations

from harness import Child, Table
from on_servers.bench import Measured, ServerBench, Turn, drain, offers
from on_servers.systems import RAW, RAW_SAME
from on_servers.tables import rates
from on_servers.targets import judge
from systems import US


def turn(child: Child, n: int) -> Turn:
    put = child.ask("put_laps", n=n)
    done = Turn({"put": n / put["seconds"]}, {"put": put["laps"]}, {"put": put["cpu"] / n})
    if offers(child, "lease", "ack"):
        get = child.ask("get_ack_laps", n=n)
        done.rates["get + ack"], done.laps["get + ack"] = n / get["seconds"], get["laps"]
        done.cpu["get + ack"] = get["cpu"] / n
    else:
        drain(child, n)
    return done


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    n, rounds = (50, 12) if bench.quick else (100, 60)
    close = bench.interleave(bench.pick(RAW, RAW_SAME, US), lambda child: turn(child, n), rounds=rounds)
    tables = show(bench, wanted, close, f"{n} a turn, {rounds} rounds")

    # A variant that differs in its worker alone has nothing new to say here.
    peers = [system for system in bench.systems if system.name != RAW_SAME and "batch" not in system.name]
    if {system.name for system in peers} <= {RAW, US}:
        return tables
    n, rounds = (200, 3) if bench.quick else (1000, 11)
    measured = bench.interleave(peers, lambda child: turn(child, max(20, int(n * child.system.share))), rounds=rounds)
    return tables + show(bench, wanted, measured, f"peers, {n} a turn, {rounds} rounds", without=(RAW,))


def show(
    bench: ServerBench, wanted: set[str], measured: Measured, how: str, without: tuple[str, ...] = ()
) -> list[Table]:
    tables: list[Table | None] = []
    for what in ("put", "get + ack"):
        if what.split()[0] in wanted and what in measured.samples:
            samples = measured.samples[what]
            title = f"{bench.kind}: {what}, one at a time ({how})"
            tables.append(rates(title, samples, measured.laps[what], measured.cpu[what]))
            tables.append(judge(bench.kind, what, samples, US, without=without))
    return [table for table in tables if table is not None]
