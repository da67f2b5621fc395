"""What breaks during a round, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.chaos.plan import Onset
from tests.chaos.scene import Scene

Mend = Callable[[], None]


def break_something(scene: Scene, onset: Onset) -> Mend:
    """Break what an onset says; what this returns mends it."""
    scene.counts[onset.fault] += 1
    return _FAULTS[onset.fault](scene, onset)


def _kill_server(scene: Scene, onset: Onset) -> Mend:
    assert scene.server is not None
    server = scene.server
    server.kill()

    def mend() -> None:
        if server.process is None:  # it may have been killed twice
            server.start()

    return mend


def _cut(scene: Scene, onset: Onset) -> Mend:
    """Connections end again and again: before a request arrives, before its answer does, or within the answer."""
    assert scene.proxy is not None
    proxy, before = scene.proxy, scene.proxy.cuts
    proxy.flap(Random(onset.at), 1, 12)

    def mend() -> None:
        proxy.mend()
        scene.counts["connections cut"] += proxy.cuts - before

    return mend


def _silence(scene: Scene, onset: Onset) -> Mend:
    """Nothing gets through, and arrives late when it does."""
    assert scene.proxy is not None
    scene.proxy.silence()
    return scene.proxy.mend


def _drop(scene: Scene, onset: Onset) -> Mend:
    """All connections end at once."""
    assert scene.proxy is not None
    scene.proxy.block()
    return scene.proxy.mend


def _fill_disk(scene: Scene, onset: Onset) -> Mend:
    """On a disk of its own; where none could be mounted, clients that come now may not make files any longer."""
    if scene.nursery.has_disk:
        scene.nursery.hire("fill_disk", folder=str(scene.disk))
    else:
        scene.is_full = True

    def mend() -> None:
        scene.is_full = False
        scene.nursery.hire("free_disk", folder=str(scene.disk))

    return mend


def _set_read_only(scene: Scene, onset: Onset) -> Mend:
    def ask(read_only: bool) -> None:
        scene.nursery.hire("set_read_only", folder=str(scene.disk / "store"), read_only=read_only)

    ask(True)
    return lambda: ask(False)


def _jump(scene: Scene, onset: Onset) -> Mend:
    """The clock of the machine is set, for all processes at once; nobody sets it right again."""
    assert scene.offset is not None
    scene.offset.set(scene.offset() + onset.how)
    return lambda: None


_FAULTS: dict[str, Callable[[Scene, Onset], Mend]] = {
    "server kill": _kill_server,
    "cuts": _cut,
    "silence": _silence,
    "drop": _drop,
    "full disk": _fill_disk,
    "read-only": _set_read_only,
    "clock jump": _jump,
}
