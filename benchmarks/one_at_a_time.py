"""put, and get_message + ack, one message and one transaction at a time."""

from __future__ import annotations

from harness import Bench, Child, Table, rate_table


def run(bench: Bench) -> list[Table]:
    n, rounds = (1000, 5) if bench.quick else (2000, 15)

    def measure(child: Child) -> dict[str, float]:
        put = child.ask("put", n=n)["seconds"]
        get_ack = child.ask("get_ack", n=n)["seconds"]
        return {"put": n / put, "get_ack": n / get_ack}

    samples = bench.interleave(bench.systems, measure, rounds=rounds)
    return [
        rate_table(f"put, one at a time ({n} into an empty file)", samples["put"]),
        rate_table(
            f"get + ack, one at a time (backlog {n} down to 0)",
            samples["get_ack"],
            note="huey deletes on get and has nothing to acknowledge",
        ),
    ]
