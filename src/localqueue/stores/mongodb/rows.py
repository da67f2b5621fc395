"""A message as a document, as a row that a transaction works on, and as the port shows it.

The fields of a document; those that are None are left out:

    _id  key          n   namespace     q   queue         s   state         p   priority      a   attempts
    c    created_at   at  available_at  due next timer    x   expires_at    e   ended_at      b   payload
    co   codec        hd  headers       dk  dedupe key    u   the same while it is live        ok  ordering key
    r    run          w   waiting on    dep dependents    la  leased_at     lb  leased_by     m   most attempts
    fg   forgiven     er  last error    ft  failed_at     h   finished attempts
    st   the claim that leased it, where several were claimed at once
    k    what listeners are to hear (said.py)                      j   1: written by a transaction that keeps a journal
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bson.int64 import Int64

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import HISTORY_LIMIT, STATES, Payload, Record, StoredMessage

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))
LIVE = [READY, DELAYED, INFLIGHT, WAITING, BLOCKED]
HEADS = [READY, DELAYED, INFLIGHT]

#: The event of a message that enters one of the states behind `dead`.
ENDINGS = {DEAD: "dead_lettered", EXPIRED: "expired", CANCELLED: "cancelled"}

#: Everything but the content, for a transaction that only moves the message.
WITHOUT_CONTENT = {"b": 0, "hd": 0, "co": 0, "h": 0}

_FIELDS = {
    "state": "s",
    "attempts": "a",
    "available_at": "at",
    "due_at": "due",
    "ended_at": "e",
    "expires_at": "x",
    "leased_at": "la",
    "leased_by": "lb",
    "most": "m",
    "forgiven": "fg",
    "last_error": "er",
    "failed_at": "ft",
    "waiting_on": "w",
    "dependents": "dep",
}
_ZERO_IS_ABSENT = ("forgiven", "waiting_on", "dependents")


@dataclass(slots=True)
class Row:
    """A message without its content. `saved` are the fields as the server has them."""

    key: int
    queue: int
    state: int
    priority: int
    available_at: float
    created_at: float
    attempts: int = 0
    due_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    leased_at: float | None = None
    leased_by: str | None = None
    most: int | None = None
    forgiven: int = 0
    last_error: str | None = None
    failed_at: float | None = None
    waiting_on: int = 0
    dependents: int = 0
    ordering_key: str | None = None
    dedupe_key: str | None = None
    run: str | None = None
    history: list[list[Any]] = field(default_factory=list)  # attempts to be added
    said: str | None = None  # the last event of its history that this transaction wrote
    saved: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(document: dict[str, Any]) -> Row:
        get = document.get
        row = Row(
            key=document["_id"], queue=document["q"], state=document["s"], priority=document["p"],
            available_at=document["at"], created_at=document["c"], attempts=document["a"], due_at=get("due"),
            ended_at=get("e"), expires_at=get("x"), leased_at=get("la"), leased_by=get("lb"), most=get("m"),
            forgiven=get("fg", 0), last_error=get("er"), failed_at=get("ft"), waiting_on=get("w", 0),
            dependents=get("dep", 0), ordering_key=get("ok"), dedupe_key=get("dk"), run=get("r"),
        )  # fmt: skip
        row.saved = row.fields()
        return row

    @property
    def holds_key(self) -> bool:
        """Whether this is the message its ordering key's others wait behind."""
        return self.ordering_key is not None and self.state <= INFLIGHT

    def fields(self) -> dict[str, Any]:
        """What can change, without what is absent."""
        found = {short: getattr(self, name) for name, short in _FIELDS.items()}
        if self.dedupe_key is not None and self.state < DEAD:
            found["u"] = self.dedupe_key
        for name in _ZERO_IS_ABSENT:
            if not found[_FIELDS[name]]:
                found[_FIELDS[name]] = None
        return {short: value for short, value in found.items() if value is not None}

    def update(self, journalled: bool, heard: dict[str, Any] | None) -> dict[str, Any]:
        """The update that makes the stored document what the row has become."""
        fields = self.fields()
        changed = {short: value for short, value in fields.items() if self.saved.get(short) != value}
        gone = dict.fromkeys(self.saved.keys() - fields.keys(), "")
        if heard is not None:
            changed["k"] = heard
        if journalled:
            changed["j"] = 1
        else:
            gone["j"] = ""
        update: dict[str, Any] = {"$set": changed} if changed else {}
        if gone:
            update["$unset"] = gone
        if self.history:
            update["$push"] = {"h": {"$each": self.history, "$slice": -HISTORY_LIMIT}}
            self.history = []
        self.saved = fields
        return update


def plain(namespace: int, key: int, queue: int, payload: Payload, codec: str | None, now: float) -> dict[str, Any]:
    """The document of a message without options."""
    document = {
        "_id": Int64(key), "n": namespace, "q": queue, "s": READY, "p": 0, "a": 0, "c": now, "at": now, "b": payload,
    }  # fmt: skip
    if codec is not None:
        document["co"] = codec
    return document


def finished_attempts(document: dict[str, Any]) -> list[rules.Attempt]:
    return [
        rules.Attempt(attempt, event, at, leased_at, leased_by, None if error is None else json.loads(error))
        for attempt, event, at, leased_at, leased_by, error in document.get("h", ())
    ]


def stored_message(ids: Mint, document: dict[str, Any], queue: str, record: Record | None = None) -> StoredMessage:
    """A whole document as the port shows it."""
    get = document.get
    state, attempts = document["s"], document["a"]
    leased_at, leased_by, error = get("la"), get("lb"), get("er")
    finished = finished_attempts(document) if "h" in document else ()
    return StoredMessage(
        ids.id_of(document["_id"]), queue, STATES[state], document["b"], get("co"), document["p"], attempts,
        document["c"], document["at"], get("due") if state == INFLIGHT else None, leased_by,
        None if error is None else json.loads(error), get("ft"), get("dk"), get("ok"), get("x"), get("r"), get("hd"),
        get("w", 0), rules.history(finished, attempts=attempts, leased_at=leased_at, leased_by=leased_by),
        get("fg", 0), record,
    )  # fmt: skip
