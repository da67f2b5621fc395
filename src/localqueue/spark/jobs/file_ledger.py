"""Which files were put into a queue, so that an ingest puts only those that were not.

A file has one record for a queue: its *mark* (size and time) and the *job* that puts it. It is written before anything
is put, and says nothing by itself: the file was put when the sink's ledger has that job, which is written by the
transaction that puts the rows. So there is no moment at which a death could lose a file or double it.

A job that is not in the ledger was cut off, or still runs. The next run of any of its files gives it up first: the
ledger then says that a later batch than the job's only one is written, so a driver that is late puts nothing and finds
itself replaced. What was put in part, by a pace or in several transactions, is not given up but finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

from localqueue.errors import RecordConflict
from localqueue.spark.jobs.paced_puts import way_of
from localqueue.spark.options import Options
from localqueue.spark.sink import ledger
from localqueue.spark.sink.delivery import deliver_staged, step_of
from localqueue.spark.sink.target import Target
from localqueue.stores.port import Changes, QueueStore, Record, RecordWrite

KIND = "spark-ingest"
_AT_ONCE = 1_000
#: Batches in the sink's ledger: the one that a job has, and the one that says it was given up.
_JOB, _GIVEN_UP = 0, 1
#: How a job stands: all of it is in the queue, a pace has put a part of it, or nothing was put.
_PUT, _BEGUN, _OPEN = "put", "begun", "open"


class File(NamedTuple):
    """A file, or a table as a whole, and what changes when it does. `resolved` is its address without links."""

    uri: str
    mark: str
    resolved: str = ""

    @property
    def address(self) -> str:
        return self.resolved or self.uri


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """Files by what is to be done: those to put, those of paced jobs that go on, and how many were put before."""

    fresh: list[File]
    begun: dict[str, list[File]]
    known: int


class FileLedger:
    """The files of one queue."""

    def __init__(self, store: QueueStore, place: Options) -> None:
        self._store = store
        self._place = place
        self._queue = place.need_queue()

    def sort(self, files: Iterable[File]) -> Sorted:
        """What is to be done with these files. ValueError, with its name, when one was changed since it was put."""
        fresh: list[File] = []
        begun: dict[str, list[File]] = {}
        states: dict[str, str] = {}
        known, members = 0, {}
        for file in files:
            record = self._record(file)
            if record is None:
                fresh.append(file)
                continue
            said = json.loads(record.value)
            job = said["job"]
            if job not in states:
                states[job] = self._state(job)
            if states[job] == _OPEN:
                fresh.append(file)
                continue
            self._same(file, said["mark"], states[job])
            if states[job] == _PUT:
                known += 1
            else:
                begun.setdefault(job, []).append(file)
                members[job] = said["files"]
        for job, count in members.items():
            if len(begun[job]) != count:
                raise ValueError(
                    f"{begun[job][0].uri} is one of {count} files that an ingest with a rate has put in part: run that "
                    "again as it was, with all of them"
                )
        return Sorted(fresh=fresh, begun=begun, known=known)

    def take(self, files: Sequence[File], job: str, *, again: bool = False) -> None:
        """Note that this job puts these files, in the place of jobs that were cut off; with `again`, of any jobs."""
        for start in range(0, len(files), _AT_ONCE):
            writes, before = [], set()
            for file in files[start : start + _AT_ONCE]:
                record, key = self._record(file), self._key(file.address)
                if record is not None:
                    before.add(json.loads(record.value)["job"])
                value = {"file": file.uri, "mark": file.mark, "job": job, "files": len(files)}
                version = record.version if record is not None and record.key == key else 0
                writes.append(RecordWrite(KIND, key, json.dumps(value).encode(), version))
            given_up = [write for one in sorted(before - {job}) for write in self._giving_up(one, again, files[0])]
            try:
                self._store.commit(Changes(records=[*given_up, *writes]))
            except RecordConflict as error:
                raise _taken_over(files[0]) from error

    def conclude(self, files: Sequence[File], job: str) -> None:
        """The job has come to its end: files without rows count as put too. RuntimeError when it was given up."""
        entry = self._entry(job)
        try:
            if not entry.has(_JOB):
                self._store.commit(Changes(records=[entry.finished(_JOB)]))
        except RecordConflict:
            entry = self._entry(job)
        if entry.has(_GIVEN_UP):
            raise _taken_over(files[0])

    def _state(self, job: str) -> str:
        """How a job stands. One that is in the queue in part is finished, where that takes no rows."""
        entry = self._entry(job)
        if entry.is_amid(_JOB):
            step = step_of(self._place.backend, self._place.delivery)
            target = Target(queue=self._queue)
            deliver_staged(self._store, key=entry.key, batch=_JOB, chunks=(), target=target, step=step)
            return _PUT
        if entry.has(_JOB):
            return _OPEN if entry.has(_GIVEN_UP) else _PUT
        way = way_of(self._store, job)
        return _BEGUN if way is not None and way.through else _OPEN

    def _giving_up(self, job: str, again: bool, file: File) -> list[RecordWrite]:
        """The writes after which a job that has put nothing never will. One that has was faster than this run."""
        if self._state(job) != _OPEN and not again:
            raise _taken_over(file)
        entry = self._entry(job)
        if entry.has(_JOB):
            return []
        way = way_of(self._store, job)
        return [entry.finished(_GIVEN_UP), *([] if way is None else [replace(way, done=True).record("given up")])]

    def _entry(self, job: str) -> ledger.Entry:
        return ledger.read(self._store, ledger.for_job(job, self._queue))

    def _record(self, file: File) -> Record | None:
        """What is known of a file; before links were followed, it was known by the address that it was named by."""
        found = self._store.record(KIND, self._key(file.address))
        return found if found is not None or file.address == file.uri else self._store.record(KIND, self._key(file.uri))

    def _key(self, address: str) -> str:
        return f"{self._queue}:{blake2b(address.encode(), digest_size=16).hexdigest()}"

    def _same(self, file: File, mark: str, state: str) -> None:
        if file.mark != mark:
            raise ValueError(
                f"{file.uri} has changed since it was put {'in part ' if state == _BEGUN else ''}into queue "
                f"{self._queue!r}: nothing was put. New rows belong into a new file; again=True (--again) puts all of "
                "the source once more"
            )


def _taken_over(file: File) -> RuntimeError:
    return RuntimeError(
        f"another run puts {file.uri} at the same time: this one has put nothing; let that one finish, then run again"
    )
