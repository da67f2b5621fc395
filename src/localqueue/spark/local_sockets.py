"""The sockets between Spark and its Python processes, on one machine.

Every row that a source or a sink in Python handles goes through one. Those of the file system carry them with less work
than those of the network, which Spark uses unless told. It leaves their files behind, so they get a folder that goes
with the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping

from localqueue.spark.host import is_local

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"
#: How long the name of the folder for temporary files may be: a socket has 104 bytes for its name on macOS, of which
#: Spark needs 43 and the folder made here 20.
_LONGEST = 40


def socket_settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What a session that is started here should be told of them; nothing where the user has, or where tasks may run
    elsewhere."""
    if ENABLED in conf or not is_local(master, conf) or len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        return {}
    folder = tempfile.mkdtemp(prefix="localqueue-")
    atexit.register(_remove, folder, os.getpid())
    return {ENABLED: "true", FOLDER: folder}


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
