"""Restate: workflows of its Python SDK behind hypercorn; the answer to the call that starts a run is its end.

The address is that of the ingress and of the admin, with a space between. What a step may wait for are the futures
that the SDK made, so the graph is walked by `as_completed`: T is started when L is there, whatever R does.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import restate


async def first() -> int:
    return 1


async def add_one(value: int) -> int:
    return value + 1


async def add_two(value: int) -> int:
    return value + 2


async def verify(one: int, other: int) -> int:
    return one + other


async def transform(value: int) -> int:
    return value * 2


async def audit(value: int) -> int:
    return value * 3


async def finish(verified: int, transformed: int, audited: int) -> int:
    return verified + transformed + audited


linear = restate.Workflow("linear")
dag = restate.Workflow("dag")


@linear.main("run")
async def run_linear(ctx: restate.WorkflowContext) -> int:
    one = await ctx.run_typed("first", first)
    two = await ctx.run_typed("second", add_one, value=one)
    return await ctx.run_typed("third", add_one, value=two)


@dag.main("run")
async def run_dag(ctx: restate.WorkflowContext) -> int:
    start = await ctx.run_typed("init", first)
    left = ctx.run_typed("L", add_one, value=start)
    right = ctx.run_typed("R", add_two, value=start)
    async for done in restate.as_completed(left, right):
        if done is left:
            transformed = ctx.run_typed("T", transform, value=await left)
        else:
            audited = ctx.run_typed("A", audit, value=await right)
    verified = ctx.run_typed("V", verify, one=await left, other=await right)
    await restate.gather(verified, transformed, audited)
    return await ctx.run_typed(
        "F", finish, verified=await verified, transformed=await transformed, audited=await audited
    )


class Worker:
    def __init__(self, address: str, **_: Any) -> None:
        self.admin = address.split()[1]

    def start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        self.ended = asyncio.Event()
        self.thread = threading.Thread(target=self._serve, args=(port,), daemon=True)
        self.thread.start()
        self._register(port)

    def _serve(self, port: int) -> None:
        config = hypercorn.config.Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.h2_max_concurrent_streams = 2000
        config.loglevel = "ERROR"
        app: Any = restate.app([linear, dag])
        self.loop.run_until_complete(hypercorn.asyncio.serve(app, config, shutdown_trigger=self.ended.wait))

    def _register(self, port: int) -> None:
        """Tell the server where the workflows live now; it asks the endpoint, so this waits until that serves."""
        body = json.dumps({"uri": f"http://127.0.0.1:{port}", "force": True}).encode()
        request = urllib.request.Request(
            f"{self.admin}/deployments", body, {"content-type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(10)


class Starter:
    def __init__(self, address: str, *, threads: int) -> None:
        self.host = address.split()[0].removeprefix("http://")
        self.numbers = itertools.count()
        self.connections = threading.local()
        self.pool = ThreadPoolExecutor(threads)

    def run(self, shape: str) -> Any:
        connection = getattr(self.connections, "one", None)
        if connection is None:
            connection = self.connections.one = http.client.HTTPConnection(self.host, timeout=120)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.request("POST", f"/{shape}/{os.getpid()}-{next(self.numbers)}/run")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"restate answered {answer.status}: {body[:500]!r}")
        return json.loads(body)

    def run_many(self, shape: str, n: int) -> list[Any]:
        return list(self.pool.map(lambda _: self.run(shape), range(n)))

    def close(self) -> None:
        self.pool.shutdown()
