"""The servers that come with peers: a private instance of each, as tests/servers.py runs the others."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

from tests.servers import Server, free_port


class Temporal(Server):
    """The development server on a file. Its defaults are SQLite's: a rollback journal, a sync at every commit; and it
    looks for what is to be done 20 times a second at most. `tuned`, it has the settings of our store and no such limit.
    """

    name = "temporal"

    def __init__(self, program: Path, *, tuned: bool = False) -> None:
        super().__init__()
        self.program, self.tuned = program, tuned

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> subprocess.Popen[bytes]:
        pragmas = ("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1")
        unlimited = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=5000")
        return self.run(
            *(str(self.program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)),
            *("--db-filename", str(self.folder / "temporal.sqlite"), "--log-level", "error"),
            *((*pragmas, *unlimited) if self.tuned else ()),
        )

    def ready(self) -> bool:
        looked = subprocess.run(
            [str(self.program), "operator", "namespace", "describe", "default", "--address", self.url],
            capture_output=True,
            timeout=10,
        )
        return looked.returncode == 0


class Restate(Server):
    """One node with its defaults: what is in its log was synced. Without `sync` it was only handed to the system."""

    name = "restate"

    def __init__(self, program: Path, *, sync: bool = True) -> None:
        super().__init__()
        self.program, self.sync = program, sync

    def take_ports(self) -> None:
        self.port, self.admin_port, self.node_port = free_port(), free_port(), free_port()

    @property
    def url(self) -> str:
        """Where runs are started, and where workers say that they are there."""
        return f"http://127.0.0.1:{self.port} http://127.0.0.1:{self.admin_port}"

    def launch(self) -> subprocess.Popen[bytes]:
        settings = self.folder / "restate.toml"
        no_sync = str(not self.sync).lower()
        settings.write_text(
            f'listen-mode = "tcp"\nbind-address = "127.0.0.1:{self.node_port}"\n'
            'disable-telemetry = true\nlog-filter = "warn"\n'
            f'[ingress]\nbind-address = "127.0.0.1:{self.port}"\n'
            f'[admin]\nbind-address = "127.0.0.1:{self.admin_port}"\ndisable-web-ui = true\n'
            f"[log-server]\nrocksdb-disable-wal-fsync = {no_sync}\n"
        )
        return self.run(
            *(str(self.program), "--no-logo", "--config-file", str(settings), "--node-name", "bench"),
            *("--base-dir", str(self.folder / "data")),
        )

    def ready(self) -> bool:
        for port, path in ((self.port, "/restate/health"), (self.admin_port, "/health")):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                if answer.status != 200:
                    return False
        return True
