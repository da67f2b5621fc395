"""What starting costs in processor time: an import, the first durable put into a new file, and the command.

Every start is a fresh interpreter, all of them take turns, and each is set against the bare interpreter of its own
environment in the same round. Bytecode is written in the first round, which does not count.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness import Bench, Table
from on_servers.systems import SERVER_PEERS
from systems import DEFAULT_VENVS, US, find_systems, venv_python

RUNS = 21
PEER = "persist-queue"  # what the others are compared with

IMPORTS = {
    US: "from localqueue import PersistentQueue",
    PEER: "from persistqueue import SQLiteAckQueue",
    "litequeue": "from litequeue import LiteQueue",
    "huey": "from huey import SqliteHuey",
    "dramatiq": "import dramatiq",
}
FIRST_PUTS = {
    US: "PersistentQueue('jobs', store_path=path).put({'to': 'you'})",
    PEER: "SQLiteAckQueue(path, auto_commit=True).put({'to': 'you'})",
    "litequeue": "import json; LiteQueue(path).put(json.dumps({'to': 'you'}))",
    "huey": "huey = SqliteHuey(filename=path); huey.task()(lambda value: value)({'to': 'you'})",
}
IN_A_QUEUE = "import localqueue", "import localqueue.policies"


@dataclass(frozen=True)
class Start:
    what: str
    who: str
    python: str
    code: str

    def seconds(self, path: str) -> float:
        """Processor time of the whole process, its own and that which the system spent for it."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        command = [self.python, "-c", f"path = {path!r}\n{self.code}"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{self.who} could not do: {self.code}")
        return used.ru_utime + used.ru_stime


def starts(pythons: dict[str, str], filled: str) -> list[Start]:
    """`filled` is a file with a queue, for the command to look at."""
    command = ["localqueue", "queue", "size", "jobs", "--store-path", filled]
    made = [Start("bare", who, python, "pass") for who, python in pythons.items()]
    made += [Start(code, US, pythons[US], code) for code in IN_A_QUEUE]
    made += [Start("import", who, pythons[who], code) for who, code in IMPORTS.items() if who in pythons]
    made += [
        Start("import and first put", who, pythons[who], f"{IMPORTS[who]}\n{code}")
        for who, code in FIRST_PUTS.items()
        if who in pythons
    ]
    run_it = f"import sys; sys.argv = {command!r}; from localqueue.cli import main; main()"
    return [*made, Start("localqueue queue size", US, pythons[US], run_it)]


def find_pythons(bench: Bench) -> dict[str, str]:
    found = {system.name: system.python for system in bench.systems if system.name in IMPORTS}
    for peer in SERVER_PEERS:
        python = venv_python(DEFAULT_VENVS, peer)
        if peer.name in IMPORTS and python.exists():
            found[peer.name] = str(python)
    return {US: sys.executable, **found}


def run(bench: Bench) -> list[Table]:
    taken: dict[Start, list[float]] = {}
    with bench.fresh_directory() as folder:
        filled = str(Path(folder) / "filled.db")
        pythons = find_pythons(bench)
        Start("", US, sys.executable, f"{IMPORTS[US]}\n{FIRST_PUTS[US]}").seconds(filled)
        for number in range(1 + (5 if bench.quick else RUNS)):
            for start in starts(pythons, filled):
                seconds = start.seconds(str(Path(folder) / f"{number}-{start.who.replace(' ', '-')}"))
                if number:
                    taken.setdefault(start, []).append(seconds)
    bare = {start.who: seconds for start, seconds in taken.items() if start.what == "bare"}
    over = {
        (start.what, start.who): [all - least for all, least in zip(seconds, bare[start.who], strict=True)]
        for start, seconds in taken.items()
        if start.what != "bare"
    }
    rows, data = [], {}
    for start, seconds in taken.items():
        if start.what == "bare":
            continue
        ours, theirs = over[start.what, start.who], over.get((start.what, PEER))
        whole, extra = statistics.median(seconds), statistics.median(ours)
        ratio = None if theirs is None else statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        shown = "-" if ratio is None else f"{ratio:.2f}"
        rows.append([start.what, start.who, f"{whole * 1000:.0f} ms", f"{extra * 1000:.0f} ms", shown])
        data[f"{start.what}, {start.who}"] = {"process_seconds": whole, "over_bare_seconds": extra, "of_peer": ratio}
    return [Table("starting", ["processor time", "", "process", "over bare", f"of {PEER}"], rows, data)]


if __name__ == "__main__":
    bench = Bench(find_systems(DEFAULT_VENVS), directory=None, quick="--quick" in sys.argv)
    try:
        for table in run(bench):
            table.print()
    finally:
        bench.close()
