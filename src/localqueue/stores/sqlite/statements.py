"""The statements of `sql/`, by file name, so that each can be read and explained without running Python."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


def load(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


SCHEMA = load("schema")
INSERT_PLAIN = load("insert_plain")
INSERT_MESSAGE = load("insert_message")
CLAIM_ONE = load("claim_one")
CLAIM_MANY = load("claim_many")
COUNT_PUT = load("count_put")
COUNT_LEASE = load("count_lease")
COUNT_ACK = load("count_ack")
COUNT_STATES = load("count_states")
DELETE_LEASED = load("delete_leased")
DELETE_LEASED_MANY = load("delete_leased_many")
DUE_MESSAGES = load("due_messages")
NEXT_DUE = load("next_due")
OLDEST_READY = load("oldest_ready")
FULL_ROW = load("full_row")
SETTLE_ROW = load("settle_row")
MOVE_MESSAGE = load("move_message")
REMEMBER_ATTEMPT = load("remember_attempt")
NEXT_OF_KEY = load("next_of_key")
