"""What is measured: our queue, SQLite by hand, and the peers, each with its interpreter."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEFAULT_VENVS = HERE.parent / ".bench-venvs"

US = "localqueue"
RAW = "raw sqlite3"
RAW_BYTES = "raw, no JSON"
RAW_SAME = "raw, our SQL"


@dataclass(frozen=True)
class Peer:
    """A package from the index, measured in a virtual environment of its own."""

    name: str
    requirement: str
    adapter: str
    syncs_every_commit: bool = False
    also: tuple[str, ...] = ()  # what is installed beside it
    server: str = ""  # the kind of server it runs on; a file otherwise
    share: float = 1.0  # of the messages of a turn, where a whole turn would take a slow one minutes


PEERS = (
    Peer("localqueue 1.4.1", "localqueue==1.4.1", "localqueue_141.py"),
    Peer("localqueue 0.5.0", "localqueue==0.5.0", "localqueue_050.py"),
    Peer("litequeue", "litequeue==0.9", "litequeue.py"),
    Peer("persist-queue", "persist-queue==1.1.0", "persistqueue.py", True),
    Peer("huey", "huey==3.5.4", "huey.py", True, also=("redis==8.1.0",)),
)


@dataclass(frozen=True)
class System:
    name: str
    python: str
    adapter: Path
    options: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0


def venv_python(venvs: Path, peer: Peer) -> Path:
    package, _, version = peer.requirement.partition("==")
    return venvs / f"{package.partition('[')[0]}-{version}" / "bin" / "python"


def find_systems(venvs: Path, only: list[str] | None = None, *, force_normal: bool = False) -> list[System]:
    """Ours and raw always; a peer when its environment has been made."""
    found = [
        System(RAW, sys.executable, HERE / "raw_sqlite.py"),
        System(RAW_BYTES, sys.executable, HERE / "raw_sqlite.py", {"with_json": False}),
        System(RAW_SAME, sys.executable, HERE / "raw_same.py"),
        System(US, sys.executable, HERE / "ours.py"),
    ]
    for peer in PEERS:
        python = venv_python(venvs, peer)
        if python.exists():
            options = {"force_normal": True} if force_normal and peer.syncs_every_commit else {}
            adapter = HERE / "peers" / peer.adapter
            found.append(System(peer.name, str(python), adapter, options))
        else:
            print(f"{peer.name}: not installed, left out (run benchmarks/setup_peers.py)")
    if only:
        found = [system for system in found if system.name in only]
    return found
