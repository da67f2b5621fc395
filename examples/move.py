"""Moving queues to another store while the work goes on: configure, copy, switch.

python examples/move.py                            from SQLite to LMDB (needs the extra lmdb)
python examples/move.py redis://localhost:6379/0   to any other store
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import localqueue
from localqueue import PersistentQueue, Worker, open_store
from localqueue.queue_copy import copy_queue


def main(there: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="localqueue-moving-"))
    localqueue.configure(url=f"sqlite:///{folder}/old.db")

    old = PersistentQueue("orders", max_attempts=3)
    for number in range(1000):
        old.put({"order": number}, delay=number % 2, dedupe_key=f"order-{number}")
    broken = old.get_message()
    old.dead_letter(broken, error=ValueError("no such customer"))
    Worker(old, lambda order: None, prefetch=50).run_until_empty()
    for number in range(1000, 1200):
        old.put({"order": number}, dedupe_key=f"order-{number}")
    counts = old.stats()
    print(f"old store: {counts.ready} ready, {counts.delayed} delayed, {counts.dead} dead")

    with open_store(there or f"lmdb:///{folder}/new", namespace="shop") as store:
        new = PersistentQueue("orders", store=store, max_attempts=3)
        report = copy_queue(old, new, progress=lambda done, total: print(f"  {done} of {total}"))
        print(f"copied {report.copied}: {dict(report.by_state)}")

        old.put({"order": 1200}, dedupe_key="order-1200")  # a producer that had not heard of it yet
        report = copy_queue(old, new)
        print(f"copied {report.copied} more, {report.already_there} were there already")

        done = Worker(new, lambda order: None, prefetch=50).run_until_empty(wait_for_delayed=True)
        print(f"new store: {done.acked} handled, {new.stats().dead} dead: {new.dead_letters()[0].last_error}")
        new.purge()
    old.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
