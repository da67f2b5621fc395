"""What works without Java, once: `python -m tests.spark.sail_job URL FOLDER`, on the PySpark that Sail wants.

Prints one line of JSON about what it found. The test beside it says what that must be.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue
from localqueue.spark import (
    archive,
    compact,
    export,
    ingest,
    materialise,
    process,
    replay,
    report,
    session,
    stream_report,
    triage,
)
from localqueue.spark.sail import StreamsMissing
from localqueue.stores.url import open_store

ROWS = 300


def main(url: str, folder: Path) -> None:
    spark = session(master="sail")
    found: dict[str, Any] = {"java": os.environ.get("JAVA_HOME", "")}
    with open_store(url) as store:
        store.enable_journal()
        jobs = PersistentQueue[Any]("jobs", store=store)
        jobs.put_many([{"n": n} for n in range(ROWS)])
        jobs.dead_letter(jobs.get_message(), error=ValueError("order 17 has no address"))

        def rows(**options: str) -> Any:
            return spark.read.format("localqueue").options(url=url, **options)

        def size(queue: str) -> int:
            return PersistentQueue[Any](queue, store=store).qsize()

        found["read"] = [
            rows(queue="jobs").load().count(),
            rows(queue="jobs").load().where("state = 'ready'").select("value").count(),
            rows(queue="jobs").schema("n int").load().agg({"n": "sum"}).collect()[0][0],
            rows(view="events").load().where("type = 'enqueued'").count(),
            rows(view="stats").load().collect()[0]["ready"],
        ]
        writer = spark.range(ROWS).where("id % 3 = 0").write.format("localqueue").mode("append")
        writer.options(url=url, queue="written", idempotencyKey="once").save()
        writer.options(url=url, queue="written", idempotencyKey="once").save()
        found["written"] = size("written")
        lines = folder / "in.json"
        lines.write_text("".join(f'{{"n": {n % 10}}}\n' for n in range(50)))
        found["ingested"] = [ingest(spark, lines, url=url, queue="in").rows, size("in")]
        found["ingested again"] = [ingest(spark, lines, url=url, queue="in").rows, size("in")]
        landing = folder / "landing"
        landing.mkdir()
        found["landed"] = []
        for day in ("monday", "tuesday"):
            (landing / f"{day}.json").write_text('{"n": 1}\n{"n": -1}\n')
            done = ingest(spark, landing, url=url, queue="landed", expect={"positive": "n > 0"})
            found["landed"].append([done.rows, done.rejected, done.known_files])
        try:
            ingest(spark, landing, url=url, queue="landed", expect={"positive": "nn > 0"}, again=True)
        except ValueError as error:
            found["wrong rule"] = str(error)
        found["exported"] = [
            export(spark, url=url, queue="jobs", path=folder / f"out.{kind}", format=kind).rows
            for kind in ("parquet", "csv", "json")
        ]
        found["archived"] = archive(spark, url=url, path=folder / "archive").rows
        found["replayed"] = [
            replay(spark, source=source, url=url, queue="jobs", to="again").put for source in (url, folder / "archive")
        ]
        found["report"] = report(spark, url=url, html=folder / "report.html").rows("flow")[0]["enqueued"]
        found["triage"] = triage(spark, url=url, queue="jobs").groups().collect()[0]["shape"]
        found["compacted"] = compact(spark, folder / "archive", key="n", topic="in", path=folder / "latest").keys
        found["processed"] = process(spark, url=url, queue="in", handler="json:dumps", workers=2).processed
        refused = []
        for job in (
            lambda: materialise(spark, url=url, queue="jobs", path=folder / "view", key="n"),
            lambda: stream_report(spark, url, checkpoint=folder / "state", output=folder / "live"),
        ):
            try:
                job()  # type: ignore[no-untyped-call]
            except StreamsMissing as error:
                refused.append(str(error))
        found["refused"] = refused
    print(json.dumps(found), flush=True)
    os._exit(0)  # Sail's threads do not end by themselves


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
