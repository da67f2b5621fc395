"""Addresses taken apart: what is shown, what the driver gets, what is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings

from localqueue.stores.address import HIDDEN, Address, conceal, parse, shown
from localqueue.stores.path import require_path
from tests.unit.addresses import Read, addresses, leaked, right_addresses


def password_by_driver(url: str) -> Any:
    """What the driver of a store takes for the password."""
    if url.startswith(("redis", "unix")):
        from redis.connection import parse_url

        return parse_url(url.replace("+cluster", ""))["password"]
    if url.startswith("mongodb"):
        from pymongo.uri_parser import parse_uri

        found = parse_uri(url)
        return found["password"] or found["options"]["authMechanismProperties"]["AWS_SESSION_TOKEN"]
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(url)
    return found.get("password") or found["sslpassword"]


@given(right_addresses)
@settings(max_examples=100)
def test_an_address_that_is_escaped_is_read_as_its_driver_reads_it_and_shown_without_its_password(right: Read) -> None:
    address = parse(right.url)
    assert password_by_driver(address.url) == right.password
    assert not leaked(f"{address.shown} {address!r} {shown(right.url)}")


@given(addresses)
@settings(max_examples=200)
@example("redis://:\ud800@h")
@example("redis://:\x00@h")
def test_any_other_is_read_or_refused_and_never_shown(url: str) -> None:
    assert not leaked(shown(url))
    try:
        address = parse(url)
    except ValueError as refused:
        assert not leaked(str(refused))
    else:
        assert not leaked(f"{address!r} {address.shown}")


@pytest.mark.parametrize("begins", ["postgresql://u:", "redis://?password=", "password='", "host=", "a", "://", ""])
@pytest.mark.parametrize("repeated", ["'\\", "@", "a=", "%", ":@/?", "\\", " ", "a=b "])
def test_a_long_one_takes_no_longer_than_it_is(begins: str, repeated: str) -> None:
    try:
        parse(begins + repeated * 20_000)
    except ValueError as refused:
        assert len(str(refused)) < 500


@pytest.mark.parametrize("character", "/?#[]@% \t\n")
@pytest.mark.parametrize("scheme", ["postgresql", "redis", "mongodb"])
def test_what_must_be_escaped_in_a_password_is_named_with_how_to_write_it(scheme: str, character: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(f"{scheme}://bob:s3{character}cret@host/0")
    way_out = f"the password holds an unescaped {character!r}: write {quote(character, safe='')}"
    assert str(refused.value) == f"can not open '{scheme}://...': {way_out}"


def test_a_user_name_is_held_to_the_same() -> None:
    with pytest.raises(ValueError, match="the user name holds an unescaped '@': write %40"):
        parse("postgresql://bob@example.org:s3cret@host/0")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://bob:s3cret@[::1]:5432/jobs?sslmode=require", "postgresql://bob@[::1]:5432/jobs"),
        ("postgresql://bob:s3cret@db1:1,db2:2/jobs", "postgresql://bob@db1:1,db2:2/jobs"),
        ("postgresql:///jobs?host=/run/pg&password=s3cret&user=bob", "postgresql:///jobs?host=/run/pg&user=bob"),
        ("POSTGRES://bob@%2Frun%2Fpg/jobs", "postgres://bob@%2Frun%2Fpg/jobs"),
        (
            "host=db port=5432 password='s3 cret' dbname='my jobs' passfile=/etc/passes",
            "host=db port=5432 dbname='my jobs'",
        ),
        ("password=s3cret", "postgresql://"),
        ("redis://:s3cret@host:6379/0", "redis://host:6379/0"),
        ("redis://b%40b:s3cret@host?password=s3cret&db=2", "redis://b%40b@host?db=2"),
        ("mongodb://bob:s3cret@h1:1,h2:2/jobs?replicaSet=rs0", "mongodb://bob@h1:1,h2:2/jobs"),
        ("sqlite:///my jobs@home.db", "sqlite:///my jobs@home.db"),
        ("jobs.db", "jobs.db"),
        ("oracle", "oracle"),
        ("password=s3cret word", "..."),
        ("redis:s3cret", "redis://..."),
    ],
)
def test_where_a_store_is_can_be_seen(url: str, seen: str) -> None:
    assert shown(url) == seen


def test_an_at_sign_in_a_parameter_is_no_end_of_a_password_for_any_driver() -> None:
    from psycopg.conninfo import conninfo_to_dict

    address = parse("postgresql://db:5432/jobs?user=bob&password=s3@cret")
    assert conninfo_to_dict(address.url)["password"] == "s3@cret"
    assert address.shown == "postgresql://db:5432/jobs?user=bob"


# by value


def masked(password: str, text: str, url: str = "postgresql://bob:{}@db.example/jobs") -> str:
    return parse(url.format(quote(password, safe=""))).mask(text)


@pytest.mark.parametrize(
    "repeats",
    [
        str,
        repr,
        lambda word: quote(word, safe=""),
        lambda word: f"AUTH\\r\\n$6\\r\\n{word}\\r\\n",
        lambda word: f"a{word}b",
    ],
)
def test_a_password_that_a_driver_repeats_is_hidden(repeats: Any) -> None:
    password = "s3'c/r\\et é"
    hidden = masked(password, f"could not use {repeats(password)} here")
    assert "s3" not in hidden and "et" not in hidden and HIDDEN in hidden


@pytest.mark.parametrize("password", ["a", "in", "bob", "jobs", "db.example", "server", "password"])
def test_a_sentence_does_not_tell_a_password_by_what_is_hidden_in_it(password: str) -> None:
    said = 'password of user "bob" is refused by the server in "jobs" at db.example'
    assert masked(password, said) == said


@pytest.mark.parametrize("said", ['word "server"', "word=server", "bob:server@db", "('server',)"])
def test_a_plain_word_is_hidden_where_it_is_a_value(said: str) -> None:
    assert masked("server", f"the server says {said}") == f"the server says {said.replace('server', HIDDEN)}"


def test_secrets_among_properties_are_hidden() -> None:
    address = parse("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:t0ken%2F1,OTHER:x")
    assert address.mask("bad value t0ken/1 or t0ken%2F1") == f"bad value {HIDDEN} or {HIDDEN}"


def test_the_errors_that_an_error_came_from_are_cleansed_with_it() -> None:
    try:
        try:
            raise OSError(5, "AUTH s3cret", "file")
        except OSError as error:
            raise RuntimeError("AUTH s3cret", 7) from error
    except RuntimeError as error:
        error.__cause__.__context__ = error  # a circle
        parse("redis://:s3cret@h").cleanse(error)
        assert error.args == (f"AUTH {HIDDEN}", 7)
        assert "s3cret" not in repr(error.__cause__.args)


def test_what_the_driver_says_of_an_address_is_left_out_where_it_could_name_a_piece_of_a_password() -> None:
    said = ValueError('invalid URI query parameter: "cret"')
    assert "cret" not in str(parse("redis://h?password=s3&cret=1").unreadable(said, "redis://host"))
    assert "cret" in str(parse("redis://h?cret=1").unreadable(said, "redis://host"))


# what else may be an address


def test_a_text_that_repeats_a_command_line_shows_no_secret_of_it() -> None:
    assert (
        conceal("no such option --stor=redis://:s3cret@h", "--stor=redis://:s3cret@h")
        == "no such option --stor=redis://h"
    )
    assert conceal("bad 'redis://:s3/cret@h'", "redis://:s3/cret@h") == "bad 'redis://...'"
    assert conceal("the word s3cret", "redis://:s3cret@h") == f"the word {HIDDEN}"
    assert conceal("bad (host=h password=x)", "host=h password=x") == "bad (host=h)"
    assert conceal("no queue 'a=b'", "a=b") == "no queue 'a=b'"


def test_a_path_is_no_address() -> None:
    assert require_path("some/jobs.db") == "some/jobs.db"
    with pytest.raises(ValueError, match="'postgresql://bob@db/jobs' is an address and not the path of a file"):
        require_path("postgresql://bob:s3cret@db/jobs")


def test_an_address_shows_neither_its_secrets_nor_itself() -> None:
    assert repr(parse("redis://:s3cret@h")) == repr(Address(url="", shown="redis://h"))
