"""Make one virtual environment a peer, because some of them have our import name.

python benchmarks/setup_peers.py [name ...] [--venvs DIR]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from on_servers.systems import SERVER_PEERS
from systems import DEFAULT_VENVS, PEERS, Peer, venv_python
from workflows.systems import NPM, WORKFLOW_PEERS, npm_home


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


def add_npm(venvs: Path, peer: Peer, package: str) -> None:
    """The server of a peer whose index is npm's, beside its environment."""
    home = npm_home(venvs, peer)
    if home.exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        print(f"{peer.name}: {package} needs npm, which is not installed; left out")
        return
    print(f"{peer.name}: installing {package} ...", flush=True)
    home.mkdir(parents=True)
    installed = subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home), package])
    if installed.returncode:
        shutil.rmtree(home)
        sys.exit(f"{package} could not be installed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these peers")
    parser.add_argument("--venvs", type=Path, default=DEFAULT_VENVS)
    arguments = parser.parse_args()
    peers = {peer.name: peer for peer in (*PEERS, *SERVER_PEERS, *WORKFLOW_PEERS)}
    if unknown := sorted(set(arguments.names) - set(peers)):
        parser.error(f"there is no {', '.join(unknown)} (there are {', '.join(peers)})")
    for peer in [peers[name] for name in arguments.names or peers]:
        make(arguments.venvs, peer)
        if peer in NPM:
            add_npm(arguments.venvs, peer, NPM[peer])


if __name__ == "__main__":
    main()
