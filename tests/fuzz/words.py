"""Words that nobody expects: what a caller, a file or another program might say instead of what is meant."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NUMBERS = [
    "0", "-0", "+1", "-1", "1", "00", "1_000", "0x10", "1e3", "1e308", "1e400", "-1e400", "nan", "NaN", "inf", "-inf",
    "Infinity", " 7 ", "7\n", "\u0661\u0662\u0663", "\uff11\uff12", "\u00b2", "\u00bd", "1.5", ".5", "5.", "1,5",
    str(2**31), str(2**63 - 1), str(2**63), str(2**64), str(-(2**63) - 1), "9" * 40, "9" * 400, "9" * 5000,
]  # fmt: skip
ODD = [
    "", " ", "\t", "\n", "\0", "a\0b", "\ud800", "\udcff", "\U0001f600", "a" * 600, "a" * 70_000, ":", "a:b", "/", "..",
    "../../etc/passwd", ".", "~", "-", "--", "--help", "-q", "=", "a=b", "null", "true", "false", "[]", "{}", "[1",
    '"x"', "'", '"', "%s", "%", "*", "?", "$(id)", "`id`", "; DROP TABLE lq_messages", "\\", "\u202e", "e\u0301", "ß",
    "İ", "[" * 3000, "{{0}}", "\x1b[31m", "\x7f", "None", "0" * 32, "f" * 32, "earliest", "latest",
]  # fmt: skip
TIMES = [
    "2026-01-31T12:00:00+00:00", "2026-01-31", "2026-02-30", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
    "24:00", "2026-W01-1", "1d", "15m", "2h", "90", "90s", "1e9d", "5 seconds", "1.5.5s", "-1s", "9999999999999d",
]  # fmt: skip

#: Single words: odd ones that are known to be odd somewhere, and any text at all.
words = st.sampled_from([*NUMBERS, *ODD, *TIMES]) | st.text(max_size=40)

#: The same without what no command line can hold: a NUL, and halves of characters that are no bytes either.
arguments = words.map(lambda word: word.replace("\0", "").encode("utf-8", "replace").decode())

#: Values of any kind, as a caller of a Python function may give them.
things: st.SearchStrategy[Any] = st.one_of(
    words,
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400]),
    st.floats(),
    st.binary(max_size=40),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just(object()),
    st.just(...),
)
