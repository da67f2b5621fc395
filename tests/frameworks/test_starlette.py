"""Tasks and queues in applications of Starlette and FastAPI, with FastAPI, httpx and uvicorn."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2 as httpx
import pytest
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from localqueue import AsyncQueue, SQLiteQueueStore, Tasks
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreError
from localqueue.starlette import get_queue, get_tasks, lifespan, queue_named
from localqueue.tasks import TaskError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    tasks = Tasks(f"sqlite:///{tmp_path}/jobs.db")

    @tasks.task
    def double(number: int) -> int:
        return 2 * number

    @tasks.task(queue="loop")
    async def triple(number: int) -> int:
        return 3 * number

    return tasks


def with_endpoints(app: FastAPI) -> FastAPI:
    @app.post("/double/{number}")
    async def double(number: int, tasks: Annotated[Tasks, Depends(get_tasks)]) -> dict[str, Any]:
        job = await tasks.tasks["double"].aenqueue(number)
        return {"id": job.id}

    @app.get("/double/{job}")
    async def doubled(job: str, tasks: Annotated[Tasks, Depends(get_tasks)]) -> int:
        found: int = await tasks.tasks["double"].job(job).result_async(timeout=PATIENCE)
        return found

    return app


def test_an_application_works_for_its_tasks_while_it_lives(tasks: Tasks) -> None:
    app = with_endpoints(FastAPI(lifespan=lifespan(tasks, worker=True, concurrency=2)))
    for number in (1, 2):  # an application may be started again
        with TestClient(app) as client:
            job = client.post(f"/double/{number}").json()["id"]
            assert client.get(f"/double/{job}").json() == 2 * number
        assert not [one.name for one in threading.enumerate() if one.name.startswith("localqueue-worker")]


def test_an_application_without_a_worker_only_enqueues(tasks: Tasks) -> None:
    app = with_endpoints(FastAPI(lifespan=lifespan(tasks)))

    async def call() -> str:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                return str((await client.post("/double/4")).json()["id"])

    job = asyncio.run(call())
    assert tasks.queue().qsize() == 1
    tasks.worker().run_until_empty()
    assert tasks.job(job, queue="default").result(timeout=PATIENCE) == 8
    tasks.close()


def test_enqueueing_does_not_hold_up_the_loop(tasks: Tasks, tmp_path: Path) -> None:
    """While somebody else has the write lock of the file, other endpoints answer."""
    app = with_endpoints(FastAPI(lifespan=lifespan(tasks)))

    @app.get("/alive")
    async def alive() -> bool:
        return True

    async def call() -> list[int]:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                with SQLiteQueueStore(tmp_path / "jobs.db") as other:
                    writer = other._writer
                    with writer.lock:
                        writer.connection.execute("BEGIN IMMEDIATE")
                        held_up = asyncio.create_task(client.post("/double/1"))
                        answered = [(await client.get("/alive")).status_code for _ in range(20)]
                        assert not held_up.done()
                        writer.connection.execute("ROLLBACK")
                return [*answered, (await held_up).status_code]

    assert set(asyncio.run(call())) == {200}


def test_a_lifespan_stands_around_another_one(tasks: Tasks) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def mine(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        said.append("begins")
        assert tasks.queue().qsize() == 0
        yield {"shop": "open"}
        assert tasks.queue().qsize() == 0
        said.append("ends")

    app = FastAPI(lifespan=lifespan(tasks, worker=True, inner=mine))

    @app.get("/")
    async def state(request: Request) -> str:
        return str(request.state.shop)

    with TestClient(app) as client:
        assert client.get("/").json() == "open"
    assert said == ["begins", "ends"]


def test_a_queue_is_handed_to_endpoints_and_websockets(tmp_path: Path) -> None:
    def queue(name: str) -> Any:
        return lambda: AsyncQueue(name, store_path=tmp_path / "queues.db")

    app = FastAPI(lifespan=lifespan(queue("mails"), inner=lifespan(queue("calls"))))

    @app.post("/mails")
    async def put(mails: Annotated[AsyncQueue[Any], Depends(queue_named("mails"))]) -> int:
        await mails.put({"to": "you"})
        return await mails.qsize()

    @app.websocket("/mails")
    async def get(socket: WebSocket, mails: Annotated[AsyncQueue[Any], Depends(queue_named("mails"))]) -> None:
        await socket.accept()
        message = await mails.get_message(timeout=PATIENCE)
        await mails.ack(message)
        await socket.send_json(message.value)
        await socket.close()

    with TestClient(app) as client:
        assert client.post("/mails").json() == 1
        with client.websocket_connect("/mails") as socket:
            assert socket.receive_json() == {"to": "you"}


def test_starlette_alone_is_enough(tmp_path: Path) -> None:
    async def put(request: Request) -> JSONResponse:
        message = await get_queue(request).put("hello")
        return JSONResponse(message.id)

    queue = lifespan(lambda: AsyncQueue("mails", store_path=tmp_path / "queues.db"))
    with TestClient(Starlette(routes=[Route("/", put)], lifespan=queue)) as client:
        assert client.get("/").status_code == 200


def test_a_store_that_can_not_be_opened_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, whatever its name says")
    tasks = Tasks(f"sqlite:///{tmp_path}/no.db")
    with pytest.raises(QueueStoreError), TestClient(FastAPI(lifespan=lifespan(tasks))):
        pass


def test_mistakes_are_named(tasks: Tasks) -> None:
    with pytest.raises(TypeError, match="worker=True"):
        lifespan(tasks, concurrency=2)
    with pytest.raises(TypeError, match="Worker of its own"):
        lifespan(lambda: AsyncQueue("mails"), worker=True)

    @tasks.task(queue="apart", executor="processes")
    def heavy() -> None: ...

    with pytest.raises(TaskError, match="apart"), TestClient(FastAPI(lifespan=lifespan(tasks, worker=True))):
        pass
    app = with_endpoints(FastAPI())
    with pytest.raises(TaskError, match="lifespan"), TestClient(app) as client:
        client.post("/double/1")


APPLICATION = """
from pathlib import Path
from fastapi import FastAPI
from localqueue import Tasks
from localqueue.starlette import lifespan

tasks = Tasks("sqlite:///jobs.db")

@tasks.task
def double(number: int) -> int:
    return 2 * number

@tasks.task
def read() -> str:
    return Path("pipe").read_text()

app = FastAPI(lifespan=lifespan(tasks, worker=True))

@app.post("/double/{number}")
async def twice(number: int) -> int:
    return await (await double.aenqueue(number))

@app.post("/read")
async def begin() -> str:
    return (await read.aenqueue()).id
"""


@pytest.mark.multiprocess
def test_uvicorn_is_stopped_when_the_running_jobs_have_ended(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    os.mkfifo(tmp_path / "pipe")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, handed_on = listening.getsockname()[1], listening.fileno()
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "application:app", "--fd", str(handed_on)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[handed_on],
        )
    assert server.stderr is not None
    said = []
    try:
        for line in server.stderr:
            said.append(line)
            if "running on" in line:
                break
        doubled = httpx.post(f"http://127.0.0.1:{port}/double/21", timeout=PATIENCE).json()
        job = httpx.post(f"http://127.0.0.1:{port}/read", timeout=PATIENCE).json()
        with (tmp_path / "pipe").open("w") as pipe:  # which opens when the job has begun to read
            server.send_signal(signal.SIGTERM)
            for line in server.stderr:
                said.append(line)
                if "Waiting for application shutdown" in line:
                    break
            pipe.write("to its end")
        said.append(server.communicate(timeout=PATIENCE)[1])
    finally:
        server.kill()
    assert doubled == 42
    assert "Application shutdown complete" in said[-1], "".join(said)
    assert server.returncode in (0, -signal.SIGTERM)  # uvicorn ends by the signal itself once all is done
    with SQLiteQueueStore(tmp_path / "jobs.db") as store, Tasks(store) as tasks:
        assert tasks.job(job).result(timeout=PATIENCE) == "to its end"
