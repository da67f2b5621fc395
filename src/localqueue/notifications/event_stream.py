"""Reading server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from localqueue._named_tuple import NamedTuple


class Block(NamedTuple):
    """What stood between two empty lines. `event_id` is None where no id was given."""

    kind: str
    event_id: str | None
    data: str


def read_blocks(lines: Iterable[bytes]) -> Iterator[Block]:
    """The blocks of a stream of lines; one that the stream breaks off in is left out, as it may be half of one."""
    kind, event_id, data = "message", None, list[str]()
    is_empty = True
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if not is_empty:
                yield Block(kind, event_id, "\n".join(data))
            kind, event_id, data, is_empty = "message", None, [], True
            continue
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        is_empty = is_empty and not name
        if name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            event_id = value
        elif name == "data":
            data.append(value)
