"""A real web server for an ASGI application, in a thread of the test process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from localqueue.contracts.steps import PATIENCE


@contextmanager
def served(app: Any, *, port: int = 0) -> Iterator[str]:
    """Yields the URL at which it answers: at a free port unless one is given."""
    config = uvicorn.Config(
        app,
        port=port,
        log_config=None,
        ws="websockets-sansio",
        timeout_graceful_shutdown=0,
        timeout_keep_alive=1,
    )
    server = uvicorn.Server(config)
    started = threading.Event()
    begin = server.startup

    async def startup(sockets: Any = None) -> None:
        await begin(sockets)
        started.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE), "the server did not start"
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not end"
