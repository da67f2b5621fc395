"""`examples/web_shop.py` runs as it stands: a web server, a worker, and requests, on three stores."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.schedules import Scheduler
from tests.stores import Place, new_place

EXAMPLE = Path(__file__).parents[2] / "examples" / "web_shop.py"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


@pytest.fixture
def shop(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the example, in the store that its processes will use."""
    monkeypatch.setenv("LOCALQUEUE_URL", place.url)
    monkeypatch.setenv("LOCALQUEUE_NAMESPACE", place.namespace)
    spec = importlib.util.spec_from_file_location("web_shop", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.tasks:
        yield module


@pytest.mark.slow
@pytest.mark.multiprocess
def test_an_order_is_charged_and_then_a_mail_is_sent(shop: Any) -> None:
    with web_server() as client, worker() as working:
        placed = client.post("/orders", params={"customer": "ada@example.com", "cents": 1250}).json()
        order, mail = shop.charge.job(placed["order"]), shop.send_mail.job(placed["mail"])

        assert mail.result(timeout=3 * PATIENCE) == "Thank you, ada@example.com"
        assert client.get(f"/orders/{order.id}").json() == "ada@example.com has paid 12.50"
        assert order.status().attempts == 2
        assert order.status().finished_at <= mail.status().started_at
        (schedule,) = Scheduler(shop.tasks.queue("mails")).list()
        assert (schedule.name, schedule.schedule.cron) == ("send_mail", "0 7 * * *")
        working.send_signal(signal.SIGTERM)
        assert working.wait(PATIENCE) == 0


def test_the_example_has_at_most_thirty_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 30


@contextmanager
def web_server() -> Iterator[httpx.Client]:
    """The web application in a process. Its port is open before the process starts, so requests wait until it does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        words = ("-m", "uvicorn", "web_shop:app", "--fd", str(listening.fileno()))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=3 * PATIENCE)
        with started(*words, pass_fds=[listening.fileno()]), client:
            yield client


@contextmanager
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with started("-m", "localqueue.cli", "work", "web_shop:tasks") as process:
        yield process


@contextmanager
def started(*words: str, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, *words], cwd=EXAMPLE.parent, **settings) as process:
        try:
            yield process
        finally:
            process.kill()
