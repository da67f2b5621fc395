"""From a put in one process to the start of a handler in another, beside the bare way by hand.

The clock is read before the put and in the first line of the handler, so the put and its commit are part of the way.
Puts come one by one with a pause between them, so the worker is asleep each time.
"""

from __future__ import annotations

from contextlib import ExitStack

from harness import Table, verdict
from on_servers.bench import ServerBench
from on_servers.systems import RAW
from on_servers.tables import times
from on_servers.targets import WAKE
from systems import US

PAUSE = 0.0237  # an odd one, so that the puts do not fall in step with anybody's polling
BARE = {"postgres": "bare NOTIFY + claim", "redis": "bare PUBLISH + claim", "mongodb": "bare change stream + claim"}


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    n, rounds = (60, 2) if bench.quick else (300, 5)
    laps: dict[str, list[float]] = {}
    with ExitStack() as stack:
        pairs = []
        for system, name, options in (
            *((raw, BARE[bench.kind], {"notify": True}) for raw in bench.pick(RAW)),
            *((us, US, {}) for us in bench.pick(US)),
        ):
            url = stack.enter_context(bench.places.fresh())
            try:
                producer = stack.enter_context(bench.opened(system, url, **options))
                consumer = stack.enter_context(bench.opened(system, url, **options))
            except RuntimeError as problem:
                print(f"{name} is left out: {problem}", flush=True)
                continue
            pairs.append((name, producer, consumer))
        for number in range(rounds + 1):
            for name, producer, consumer in pairs:
                consumer.send("handle_stamped", n=n)
                producer.ask("put_stamped", n=n, pause=PAUSE)
                found = consumer.answer()["laps"]
                if number:
                    laps.setdefault(name, []).extend(found)
    table = times(f"{bench.kind}: put in one process to the handler in another", laps)
    if US in table.data:
        at_most, is_now = WAKE[bench.kind], table.data[US]["p50"] * 1000
        table.note = f"target: p50 at most {at_most} ms, is {is_now:.2f} ms: {verdict(is_now <= at_most)}"
    return [table]
