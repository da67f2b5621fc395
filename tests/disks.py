"""Disks that are small, or said to be: for processes that have one of their own."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC_PRIVATE = 0x4000 | 0x40000

# A mount of its own wherever Linux runs, also where the root is not one (in a chroot).
_SHARED_MEMORY = Path("/dev/shm")


def mount_small_disk(folder: str, size: str = "2m") -> bool:
    """Mount a small filesystem that only this process and its children see; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS if user == 0 else _CLONE_NEWNS | _CLONE_NEWUSER) != 0:
        return False
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")

    def keep_private(place: bytes) -> bool:
        return bool(libc.mount(b"none", place, None, _MS_REC_PRIVATE, None) == 0)

    def mount(place: bytes) -> bool:
        return bool(libc.mount(b"tmpfs", place, b"tmpfs", 0, f"size={size}".encode()) == 0)

    if keep_private(b"/"):
        return mount(os.fsencode(folder))
    if not keep_private(bytes(_SHARED_MEMORY)):
        return False
    place = _SHARED_MEMORY / "localqueue-small-disk"  # everybody mounts one of his own there
    place.mkdir(exist_ok=True)
    if not mount(bytes(place)):
        return False
    os.rmdir(folder)
    os.symlink(place, folder)
    return True


def limit_file_size(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def lift_file_size() -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
