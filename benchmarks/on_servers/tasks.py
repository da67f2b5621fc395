"""Tasks on a server: ours, and those of the peers that live on it."""

from __future__ import annotations

from collections.abc import Callable

from harness import Child, Samples, Table
from on_servers.bench import ServerBench, Turn
from on_servers.systems import SERVER_PEERS
from systems import PEERS, System
from tasks import compare


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    def interleave(
        systems: list[System], measure: Callable[[Child], dict[str, float]], rounds: int
    ) -> dict[str, Samples]:
        return bench.interleave(systems, lambda child: Turn(measure(child)), rounds=rounds).samples

    sizes = (150, 4) if bench.quick else (300, 10)
    peers = (*PEERS, *SERVER_PEERS)
    return compare(bench.kind, peers, bench.venvs, bench.only, interleave, sizes=sizes, quick=bench.quick)
