"""Make one virtual environment a peer, because some of them have our import name.

python benchmarks/setup_peers.py [--venvs DIR]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from on_servers.systems import SERVER_PEERS
from systems import DEFAULT_VENVS, PEERS, Peer, venv_python


def make(venvs: Path, peer: Peer) -> None:
    python = venv_python(venvs, peer)
    if python.exists():
        print(f"{peer.name}: there")
        return
    home = python.parent.parent
    print(f"{peer.name}: installing {peer.requirement} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, peer.requirement, *peer.also])
    if installed.returncode:
        python.unlink()
        sys.exit(f"{peer.requirement} could not be installed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venvs", type=Path, default=DEFAULT_VENVS)
    arguments = parser.parse_args()
    for peer in (*PEERS, *SERVER_PEERS):
        make(arguments.venvs, peer)


if __name__ == "__main__":
    main()
