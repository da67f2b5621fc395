"""Addresses with nasty passwords, in every form that a store takes and in some that none does."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

#: Pieces of every secret, which nothing else says: a leak of a part of it is a leak.
PIECES = ("Xq7", "Zw9", "Vk3")

_NASTY = "/?#[]@%:;&=+ '\"\\`$!*,.~^{}|<>aé\uff0f\uff20\uff1a\u2100\t\n\r\x7f\u2028"
_nasty = st.text(st.sampled_from(_NASTY), max_size=4)
passwords = st.builds(lambda one, two: one.join(PIECES[:2]) + two + PIECES[2], _nasty, _nasty)
written = st.sampled_from(
    [str, quote, quote_plus, lambda word: quote(word, safe=""), lambda word: quote(word, "/@?#[]")]
)

HERE = "127.0.0.1:1"  # where nobody listens
PASSWORD_BEFORE_HOST = (
    f"postgresql://bob:{{}}@{HERE}/jobs",
    f"postgres://:{{}}@{HERE},127.0.0.1:2/jobs?sslmode=disable",
    f"redis://:{{}}@{HERE}/0",
    f"rediss://bob:{{}}@{HERE}",
    f"redis+cluster://bob:{{}}@{HERE}",
    "unix://bob:{}@/nowhere/redis.sock?db=2",
    f"mongodb://bob:{{}}@{HERE},127.0.0.1:2/jobs",
)
PASSWORD_AS_PARAMETER = (
    f"postgresql://{HERE}/jobs?user=bob&password={{}}",
    "postgresql:///jobs?host=127.0.0.1&port=1&passw%6Frd={}",
    f"postgresql://bob@{HERE}/jobs?sslpassword={{}}&sslmode=disable",
    "redis://:1?password={}",
    f"redis://{HERE}/0?username=bob&password={{}}",
    "unix:///nowhere/redis.sock?password={}",
)
MALFORMED = (
    f"mongodb://{HERE}/jobs?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{{}}",
    "nosuch://bob:{}@host/jobs",
    "postgresql//bob:{}@host/jobs",
    "redis:/bob:{}@host",
    "redis:bob:{}@host://",
    "bob:{}@host",
    "mongodb+srv://bob:{}@127.0.0.1/jobs",
    f"redis://{HERE}/0?paswort={{}}&password=x",
    f"mongodb://bob:{{}}@{HERE}/jobs?nosuch=option",
    f"postgresql://bob:{{}}@{HERE}/jobs?nosuch=option",
    "sqlite://bob:{}@host/jobs.db",
    "lmdb://bob:{}@host/jobs",
    "memory://bob:{}@host",
)
WITHOUT_HOST = ("redis://bob:{}", "postgresql://bob:{}/jobs", "mongodb://bob:{}", "rediss://:{}?db=1")
WORDS = ("host=127.0.0.1 port=1 user=bob password={} dbname=jobs", "password = {}host=127.0.0.1 port=1")


def in_words(password: str) -> str:
    """As PostgreSQL has it in `password='...'`."""
    return "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"


#: Addresses that are read or refused, whatever is in them.
addresses = st.one_of(
    st.builds(
        lambda form, write, password: form.format(write(password)),
        st.sampled_from(PASSWORD_BEFORE_HOST + PASSWORD_AS_PARAMETER + MALFORMED),
        written,
        passwords,
    ),
    st.builds(  # what follows an "@" is the host
        lambda form, password: form.format(password.replace("@", "")), st.sampled_from(WITHOUT_HOST), passwords
    ),
    st.builds(
        lambda form, write, password: form.format(write(password)),
        st.sampled_from(WORDS),
        st.sampled_from([str, in_words, lambda word: f"'{word}'"]),
        passwords,
    ),
)


class Read(NamedTuple):
    url: str
    password: str


def right(forms: Iterable[str], write: Callable[[str], str]) -> st.SearchStrategy[Read]:
    return st.builds(
        lambda form, password: Read(form.format(write(password)), password), st.sampled_from(list(forms)), passwords
    )


#: Addresses that are written as they should be.
urls = PASSWORD_BEFORE_HOST + PASSWORD_AS_PARAMETER
words_of_postgres = right(WORDS, in_words)
urls_of_postgres = right([url for url in urls if url.startswith("postgres")], lambda word: quote(word, safe=""))
right_addresses = right(urls, lambda word: quote(word, safe="")) | words_of_postgres


def all_said(error: BaseException) -> str:
    """Whatever an error shows: its text, its traceback, and those of the errors it came from, shown or not."""
    said: list[Any] = []
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and one not in said:
            said += [one, str(one), repr(one), one.args, getattr(one, "path", None), *traceback.format_exception(one)]
            rest += [one.__cause__, one.__context__]
    return "\n".join(map(str, said))


def leaked(text: str) -> list[str]:
    return [piece for piece in PIECES if piece.lower() in text.lower()]
