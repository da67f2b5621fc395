"""Where a campaign takes place: the store, its server and the network before it, and the nursery of its clients."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.chaos.nursery import Child, Nursery
from tests.clocks import Offset
from tests.faults.proxy import Proxy
from tests.faults.ways import through
from tests.servers import MongoDB, Server
from tests.stores import SERVERS, Place

DISK = "64m"
_A_JOB = 60.0


class Scene:
    """One kind of store. `counts` is what was done to it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.counts: Counter[str] = Counter()
        self.folder = Path(tempfile.mkdtemp(prefix=f"localqueue-chaos-{kind}-"))
        self.folder.chmod(0o777)
        self.disk = self.folder / "disk"
        self.server: Server | None = None
        self.proxy: Proxy | None = None
        self.offset: Offset | None = None
        self.is_full = False  # whether clients are to find no room, where the disk can not be filled
        if kind in SERVERS:
            self.server = _new_server(kind)
            self.server.start()
            self.proxy = Proxy(self.server.port).__enter__()
            self.nursery = Nursery()
        else:
            self.disk.mkdir()
            self.offset = Offset(self.folder / "clock")
            self.nursery = Nursery(str(self.disk), DISK)

    @property
    def clock(self) -> str | None:
        return None if self.offset is None else str(self.folder / "clock")

    def place(self, namespace: str, *, proxied: bool = False) -> Place:
        if self.server is None:
            folder = self.disk / "store"
            return Place(self.kind, str(folder if self.kind == "lmdb" else folder / "queues.db"), namespace)
        place = Place(self.kind, self.server.url, namespace)
        return through(place, self.proxy.port) if proxied and self.proxy is not None else place

    def new_folder(self, name: str) -> Path:
        """Where the clients of a round write; anybody may."""
        folder = self.folder / name
        folder.mkdir()
        folder.chmod(0o777)
        return folder

    def run(
        self, job: str, *, timeout: float = _A_JOB, look: Callable[[Child], None] | None = None, **arguments: Any
    ) -> Child:
        """Have a job done while nothing else happens; its child, which is still there when it took too long. `look` is
        shown others that end meanwhile."""
        child = self.nursery.hire(job, **arguments)
        deadline = time.monotonic() + timeout
        while child.status is None and time.monotonic() < deadline:
            for gone in self.nursery.look(0.1):
                if gone is not child and look is not None:
                    look(gone)
        return child

    def weight(self) -> int:
        """How many bytes the store has on its disk."""
        if self.server is not None:
            return weight_of(self.server.folder)
        result = self.folder / "weight"
        self.run("weigh", folder=str(self.disk), result=str(result))
        return int(json.loads(result.read_text())) if result.exists() else 0

    def memory(self) -> int:
        """How many bytes of memory its server has, and the processes that it started."""
        if self.server is None or self.server.process is None:
            return 0
        return sum(map(resident, _family(self.server.process.pid)))

    def close(self) -> None:
        self.nursery.close()
        if self.proxy is not None:
            self.proxy.close()
        if self.server is not None:
            self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _new_server(kind: str) -> Server:
    """MongoDB keeps what a transaction has written locked for a minute after its client has died, which is as long as
    some rounds: here for seconds."""
    return MongoDB("transactionLifetimeLimitSeconds=3") if kind == "mongodb" else SERVERS[kind]()


def weight_of(folder: Path) -> int:
    """How many bytes the files of a folder have on their disk."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # removed meanwhile
            total += path.stat().st_blocks * 512
    return total


def resident(pid: int) -> int:
    """The memory of a process, without what it shares with others where that can be told."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")}
    return found.get("RssAnon", 0)


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *map(int, children)]
