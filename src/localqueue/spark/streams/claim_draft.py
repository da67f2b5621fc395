"""What a claim will be made of: messages that are held, encoded and judged, and written in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localqueue.spark.streams.claim_blob import chunked, encode
from localqueue.spark.streams.claim_lease import Held, Taken
from localqueue.spark.streams.consumer_record import CLAIMS
from localqueue.spark.streams.verdict import Error, Misfits, Verdicts, corrupt
from localqueue.stores.port import RecordWrite


class Draft(NamedTuple):
    """Messages that are held and no claim yet. `blobs` are the chunks, each with the errors of those of its messages
    that do not fit; none when no message fits. `keyed` if one of them has an ordering key."""

    held: list[Held]
    blobs: list[tuple[bytes, dict[str, Error]]]
    errors: dict[str, Error]
    followers: int = 0
    keyed: bool = True

    @classmethod
    def of(cls, taken: Taken, misfits: Misfits | None, chunk_rows: Callable[[int], int]) -> Draft:
        """The draft of these. `chunk_rows` says how many messages of a claim of some size go into one chunk."""
        messages = taken.messages
        errors = {} if misfits is None else corrupt(misfits(messages))
        if len(errors) == len(messages):
            return cls(taken.held(), [], errors)
        blobs = [
            (encode(chunk, taken.heads), {one.id: errors[one.id] for one in chunk if one.id in errors})
            for chunk in chunked(messages, max(1, chunk_rows(len(messages))), taken.heads)
        ]
        return cls(taken.held(), blobs, errors, len(taken.heads), any(one.ordering_key for one in messages))

    def writes(self, keys: Sequence[str]) -> list[RecordWrite]:
        """The records of the chunks and of the verdicts on them."""
        chunks = [RecordWrite(CLAIMS, key, blob) for key, (blob, _) in zip(keys, self.blobs, strict=True)]
        said = [Verdicts(key).adding(errors) for key, (_, errors) in zip(keys, self.blobs, strict=True)]
        return [*chunks, *said]
