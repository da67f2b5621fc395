"""One side of a workflow system in a process of its own: the worker, or the one that starts runs and waits for them.

    python -P process.py ADAPTER.py worker '{"address": "...", ...}'    says {"ready": true}, works until its input ends
    python -P process.py ADAPTER.py starter '{"address": "...", ...}'    one JSON object a line, each way
    {"do": "one_by_one", "shape": "dag", "n": 20}   ->  {"laps": [0.0061, ...]}
    {"do": "at_once", "shape": "dag", "n": 100}     ->  {"seconds": 0.81, "results": 100}

Each system runs in its own virtual environment, so this file uses nothing but the standard library. Clocks are read
here, from before a run is started to when its end and its result are known, so that the pipe costs the figures nothing.

An adapter is a module with two classes, made with the address and the options of the system:

    Worker    start(), stop()
    Starter   run(shape) -> result              starts a run and waits for its end
              run_many(shape, n) -> results     n of them at once
              close()

Where a system runs its workflows in the process that starts them, it has no `Worker`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import time
from typing import Any

#: what a run of each shape must come to, whoever ran it
EXPECTED = {
    "linear": 3,
    "flow": 3,
    "dag": 18,
    "linear4": 4,
    "diamond": 7,
    "tree": 8,
    "conditional": 4,
    "batch": 999_000,
}


class StarterSide:
    def __init__(self, starter: Any) -> None:
        self._starter = starter

    def one_by_one(self, shape: str, n: int) -> dict[str, Any]:
        laps = []
        for _ in range(n):
            before = time.perf_counter()
            result = self._starter.run(shape)
            laps.append(time.perf_counter() - before)
            _check(shape, result)
        return {"laps": laps}

    def at_once(self, shape: str, n: int) -> dict[str, Any]:
        before = time.perf_counter()
        results = self._starter.run_many(shape, n)
        seconds = time.perf_counter() - before
        for result in results:
            _check(shape, result)
        return {"seconds": seconds, "results": len(results)}


def _check(shape: str, result: Any) -> None:
    if result != EXPECTED[shape]:
        raise RuntimeError(f"a run of {shape} came to {result!r} where {EXPECTED[shape]} was expected")


def serve_worker(worker: Any, answers: Any) -> None:
    worker.start()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    sys.stdin.read()
    worker.stop()


def serve_starter(starter: Any, answers: Any) -> None:
    side = StarterSide(starter)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        gc.collect()
        try:
            answer = getattr(side, verb)(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    starter.close()


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("bench_adapter", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    path, role, options = sys.argv[1:]
    answers = sys.stdout
    sys.stdout = sys.stderr
    given = json.loads(options)
    module = load(path)
    if role == "worker":
        serve_worker(module.Worker(given.pop("address"), **given), answers)
    else:
        serve_starter(module.Starter(given.pop("address"), **given), answers)


if __name__ == "__main__":
    main()
