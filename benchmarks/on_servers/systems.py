"""What is measured on each kind of server: ours, the same work by hand, and the peers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from systems import HERE, US, Peer, System, venv_python

KINDS = ("postgres", "redis", "mongodb")

RAW = "raw"
RAW_SAME = "raw, our statements"
BATCH = 50  # messages a worker takes at a time

_PSYCOPG = ("psycopg[binary,pool]==3.3.8",)

SERVER_PEERS = (
    Peer("pgmq", "pgmq==1.1.4", "pgmq.py", also=_PSYCOPG, server="postgres"),
    Peer("pgqueuer", "pgqueuer[asyncpg]==1.6.0", "pgqueuer.py", server="postgres"),
    Peer("procrastinate", "procrastinate==3.10.0", "procrastinate.py", also=_PSYCOPG, server="postgres", share=0.25),
    Peer("dbos", "dbos==3.3.0", "dbos.py", also=_PSYCOPG, server="postgres", share=0.25),
    Peer("dramatiq", "dramatiq[redis]==2.2.1", "dramatiq.py", server="redis"),
    Peer("taskiq", "taskiq==0.13.0", "taskiq.py", also=("taskiq-redis==1.2.4",), server="redis"),
    Peer("saq", "saq[redis]==0.26.4", "saq.py", also=("typing_extensions==4.16.0",), server="redis"),
    Peer("streaq", "streaq==7.2.0", "streaq.py", server="redis"),
    Peer("rq", "rq==2.12.0", "rq.py", server="redis", share=0.25),
    Peer("arq", "arq==0.28.0", "arq.py", server="redis", share=0.25),
)

# A second way to run a peer, where its defaults are not its quickest or not its safest.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "pgmq": {"pgmq, autocommit": {"autocommit": True}},
    "pgqueuer": {f"pgqueuer, {BATCH} a batch": {"batch_size": BATCH}},
    "taskiq": {"taskiq, lists without ack": {"lists": True}},
}


def find_systems(kind: str, venvs: Path) -> list[System]:
    """Ours and the raw ones always; a peer when its environment has been made."""
    raw = HERE / "raw_servers"
    found = [
        System(RAW, sys.executable, raw / f"{kind}.py"),
        System(RAW_SAME, sys.executable, raw / f"{kind}_same.py"),
        System(US, sys.executable, HERE / "ours.py"),
    ]
    found = [system for system in found if system.adapter.exists()]
    for peer in SERVER_PEERS:
        if peer.server != kind:
            continue
        python = venv_python(venvs, peer)
        if not python.exists():
            print(f"{peer.name}: not installed, left out (run benchmarks/setup_peers.py)")
            continue
        system = System(peer.name, str(python), HERE / "peers" / peer.adapter, share=peer.share)
        found.append(system)
        for name, options in VARIANTS.get(peer.name, {}).items():
            found.append(replace(system, name=name, options=options))
    return found
