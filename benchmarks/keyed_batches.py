"""What options cost a batch: plain messages, and the same with dedupe keys, ordering keys and so on, a commit each.

python benchmarks/keyed_batches.py sqlite:////tmp/x.db [--size 10000] [--rounds 5] [--only dedupe,ordering]
python benchmarks/keyed_batches.py postgres|redis|mongodb     on a private server, started for this

The messages are made before the clock is read: it is the store that is measured. Kinds take turns, each on an emptied
queue, the first round is thrown away, and a ratio is taken within a round. `plain` is `put_batch`, everything else
`commit(Changes(enqueue=[...]))`. Then the same as an application sees it: `put_many` of dicts, which are checked and
encoded, against `put_many` without options.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from localqueue import PersistentQueue
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores import open_store
from localqueue.stores.port import Changes, Limit, NewMessage, QueueStore

QUEUE = "keyed"
PAYLOAD = '{"n": 1, "text": "' + "x" * 90 + '"}'
GOAL = 0.5

#: what the n-th message of a batch has beside its payload
OPTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "commit, no options": lambda n: {},
    "dedupe keys": lambda n: {"dedupe_key": f"order-{n}"},
    "dedupe keys, half of them twice": lambda n: {"dedupe_key": f"order-{n // 2}"},
    "ordering keys, all different": lambda n: {"ordering_key": f"customer-{n}"},
    "ordering keys, 100 of each": lambda n: {"ordering_key": f"customer-{n // 100}"},
    "both keys": lambda n: {"dedupe_key": f"order-{n}", "ordering_key": f"customer-{n // 10}"},
    "delays": lambda n: {"delay": 60.0 + n % 7},
    "priorities and headers": lambda n: {"priority": n % 3, "headers": '{"source": "bench"}'},
    "a ttl": lambda n: {"ttl": 3600.0},
    "a run": lambda n: {"run_id": "bench"},
    "capacity": lambda n: {},
    "after= the one before": lambda n: {},
}


#: what a `put_many` has beside its items
CALLS: dict[str, Callable[[int], dict[str, Any]]] = {
    "put_many": lambda size: {},
    "put_many, dedupe keys": lambda size: {"dedupe_keys": [f"order-{n}" for n in range(size)]},
    "put_many, an ordering key": lambda size: {"ordering_key": "customer"},
    "put_many, a delay": lambda size: {"delay": 60.0},
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="the url of a store, or postgres, redis or mongodb")
    parser.add_argument("--size", type=int, default=10_000, help="messages a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="comma separated: parts of the names of the kinds")
    return parser.parse_args()


@contextmanager
def opened(where: str) -> Iterator[QueueStore]:
    if ":" in where:
        with open_store(where, namespace="keyed-batches") as store:
            yield store
        return
    from on_servers.places import PLACES

    places = PLACES[where]()
    try:
        with places.fresh() as url, open_store(url, namespace="keyed-batches") as store:
            yield store
    finally:
        places.stop()


def batch(store: QueueStore, kind: str, size: int) -> Changes:
    ids = store.mint(size)
    option = OPTIONS[kind]
    messages = [NewMessage(one, QUEUE, PAYLOAD, **option(n)) for n, one in enumerate(ids)]
    if kind.startswith("after"):
        messages[1:] = [one._replace(after=(before,)) for before, one in zip(ids, messages[1:], strict=False)]
    limits = {QUEUE: Limit(size * 10)} if kind == "capacity" else {}
    return Changes(enqueue=messages, limits=limits)


def plain(store: QueueStore, size: int) -> float:
    payloads = [PAYLOAD] * size
    began = time.perf_counter()
    store.put_batch(QUEUE, payloads, None)
    return time.perf_counter() - began


def keyed(store: QueueStore, kind: str, size: int) -> float:
    changes = batch(store, kind, size)
    began = time.perf_counter()
    store.commit(changes)
    return time.perf_counter() - began


def called(store: QueueStore, kind: str, size: int) -> float:
    queue: PersistentQueue[Any] = PersistentQueue(QUEUE, store=store, ordering_policy=PerKeyFifoOrdering())
    items, options = [{"n": n, "text": "x" * 90} for n in range(size)], CALLS[kind](size)
    began = time.perf_counter()
    queue.put_many(items, **options)
    return time.perf_counter() - began


def measure(store: QueueStore, work: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round; the first kind is what the others are compared with."""
    seconds: dict[str, list[float]] = {kind: [] for kind in work}
    for number in range(rounds + 1):
        for kind in list(work)[:: -1 if number % 2 else 1]:
            took = work[kind]()
            store.purge(QUEUE)
            if number:
                seconds[kind].append(took)
    return seconds


def show(size: int, seconds: dict[str, list[float]]) -> None:
    base = next(iter(seconds.values()))
    for kind, taken in seconds.items():
        ratio = statistics.median(one / mine for one, mine in zip(base, taken, strict=True))
        missed = "  below the goal" if ratio < GOAL else ""
        print(f"{kind:34}{size / statistics.median(taken):12,.0f}{ratio:10.2f}{missed}")


def main() -> None:
    arguments = parse()
    size, rounds, wanted = arguments.size, arguments.rounds, arguments.only.split(",")

    def chosen(kinds: Iterable[str], run: Callable[[QueueStore, str, int], float]) -> dict[str, Callable[[], float]]:
        some = [kind for kind in kinds if any(part in kind for part in wanted)]
        return {kind: partial(run, store, kind, size) for kind in some}

    with opened(arguments.store) as store:
        at_the_port = {"plain": partial(plain, store, size)} | chosen(OPTIONS, keyed)
        by_calls = {"put_many": partial(called, store, "put_many", size)} | chosen(list(CALLS)[1:], called)
        port, calls = measure(store, at_the_port, rounds), measure(store, by_calls, rounds)
    print(f"{arguments.store}: {size} messages a batch, medians of {rounds} rounds\n")
    print(f"{'':34}{'messages/s':>12}{'of plain':>10}")
    show(size, port)
    show(size, calls)


if __name__ == "__main__":
    sys.exit(main())
