"""`python -m tests.fuzz [minutes] [name]`: every fuzz test, or those whose name has this word, with new examples.

They run again and again until the time is over. What fails is printed once with the seed that finds it again:
`pytest --hypothesis-seed=SEED` with the same LOCALQUEUE_FUZZ_EFFORT.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
EFFORT = os.environ.get("LOCALQUEUE_FUZZ_EFFORT") or "5"


def main(minutes: float = 10.0, name: str = "") -> int:
    """1 when something failed."""
    ends = time.monotonic() + minutes * 60
    files = [file for file in HERE.glob("test_*.py") if name in file.read_text() + file.stem]
    if not files:
        sys.exit(f"no fuzz test has {name!r} in its name")
    failed = False
    while time.monotonic() < ends:
        for file in random.sample(files, len(files)):
            remaining = ends - time.monotonic()
            if remaining > 0:
                failed |= _fails(file, name, random.getrandbits(64), remaining)
    return int(failed)


def _fails(file: Path, name: str, seed: int, seconds: float) -> bool:
    """Run a file until it ends or the time is over; whether a test of it failed."""
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", "--tb=short"]
    line += ["--timeout=0", *(["-k", name] if name else []), str(file)]
    environment = {**os.environ, "LOCALQUEUE_FUZZ_EFFORT": EFFORT}
    try:
        done = subprocess.run(
            line, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        print(f"{file.name}: not finished", flush=True)
        return False
    if done.returncode in (0, 5):  # 5: no test has that name
        if done.returncode == 0:
            print(f"{file.name}: {done.stdout.strip().splitlines()[-1]}", flush=True)
        return False
    again = (
        f"LOCALQUEUE_FUZZ_EFFORT={EFFORT} python -m pytest --hypothesis-seed={seed} {file.relative_to(HERE.parents[1])}"
    )
    print(f"{done.stdout}{done.stderr}\n{file.name}: failed; again with\n  {again}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else 10.0, *sys.argv[2:3]))
