"""Bytes on disk with 100,000 messages waiting, after a clean close."""

from __future__ import annotations

from pathlib import Path

from harness import Bench, Table

MESSAGES = 100_000


def run(bench: Bench) -> list[Table]:
    n = MESSAGES // 5 if bench.quick else MESSAGES
    sizes = {}
    with bench.children(bench.systems) as children:
        for child in children:
            with bench.fresh_directory() as path:
                bench.open(child, path)
                child.ask("fill", n=n)
                child.ask("close")
                child.stop()
                files = [file for file in Path(path).rglob("*") if file.is_file()]
                sizes[child.system.name] = sum(file.stat().st_size for file in files)
    rows = [
        [name, f"{size / 1e6:.1f} MB", f"{size / n:.0f}"]
        for name, size in sorted(sizes.items(), key=lambda pair: pair[1])
    ]
    return [Table(f"{n:,} messages on disk", ["", "size", "bytes a message"], rows, sizes)]
