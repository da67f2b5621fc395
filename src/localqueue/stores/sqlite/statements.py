"""The statements of `sql/`, by file name, so that each can be read and explained without running Python."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


def load(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


SCHEMA = load("schema")
ACK_ONE = load("ack_one")
ADD_RECORD = load("add_record")
CLAIM_ONE = load("claim_one")
CLAIMED_MESSAGE = load("claimed_message")
COUNT_ARRIVALS = load("count_arrivals")
COUNT_DEPARTURES = load("count_departures")
COUNT_STATES = load("count_states")
CURRENT_ROW = load("current_row")
DATE_ENTRIES = load("date_entries")
DELETE_ACKED = load("delete_acked")
DELETE_CONSUMED = load("delete_consumed")
DELETE_RECORD = load("delete_record")
DUE_MESSAGES = load("due_messages")
ENDS_OF_LINE = load("ends_of_line")
END_LEASE = load("end_lease")
ENTER_LINE = load("enter_line")
EXPIRED_LEASES = load("expired_leases")
FULL_ROW = load("full_row")
INSERT_MESSAGE = load("insert_message")
INSERT_PLAIN = load("insert_plain")
JOURNAL_EVENTS = load("journal_events")
JOURNAL_OFF = load("journal_off")
JOURNAL_ON = load("journal_on")
JOURNAL_SPAN = load("journal_span")
LEASE_UP_TO = load("lease_up_to")
LEAVE_LINE_UP_TO = load("leave_line_up_to")
LOOK = load("look")
MOVE_MESSAGE = load("move_message")
NEXT_DUE = load("next_due")
NEXT_IN_LINE = load("next_in_line")
NEXT_OF_KEY = load("next_of_key")
OLDEST_READY = load("oldest_ready")
PUT_ONE = load("put_one")
RENEW_LEASE = load("renew_lease")
REPLACE_RECORD = load("replace_record")
SET_RECORD = load("set_record")
SPLIT_SAMPLE = load("split_sample")

#: In their order; see schema.py.
MIGRATIONS = [load(f"migrations/{name}") for name in ("0002_journal_options",)]
