"""No command shows a password, whatever is wrong with the address it was given."""

from __future__ import annotations

import os
from functools import cache

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localqueue.cli import app
from localqueue.cli.config import Config, config_path
from localqueue.stores.mongodb import connection as mongodb_connection
from tests.cli.command import Ran, run
from tests.unit.addresses import addresses, leaked

some = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tree of commands for all calls, and little patience with a server that is not there."""
    monkeypatch.setattr(app, "build", cache(app.build))
    monkeypatch.setattr(typer.main, "get_command", cache(typer.main.get_command))
    acquire = mongodb_connection.acquire
    monkeypatch.setattr(mongodb_connection, "acquire", lambda url, timeout: acquire(url, 0.02))


def cases(url: str) -> dict[str, tuple[str, ...]]:
    return {
        "store": ("queue", "size", "jobs", "--store", url),
        "store with =": ("queue", "add", "jobs", "--value", "1", f"--store={url}"),
        "store path": ("queue", "add", "jobs", "--value", "1", "--store-path", url),
        "target": ("queue", "copy", "jobs", "--to", url),
        "name of a queue": ("queue", "size", url),
        "too many": ("queue", "size", "jobs", url),
        "no command": ("queue", url),
        "no option": ("queue", "size", "jobs", f"--stor={url}"),
        "no number": ("queue", "stats", "jobs", "--interval", url),
        "no id": ("queue", "ack", "jobs", url),
        "config value": ("config", "set", "store_url", url),
        "config key": ("config", "set", url, "1"),
        "config path": ("config", "set", "store_path", url),
        "config number": ("config", "set", "dead_letter_ttl_seconds", url),
    }


def no_secret(ran: Ran) -> None:
    assert not leaked(ran.out + ran.err), ran
    assert "Traceback" not in ran.err or os.environ.get("LOCALQUEUE_TRACEBACK"), ran


@given(addresses, st.sampled_from(sorted(cases(""))), st.booleans())
@some
def test_no_command_repeats_a_password(url: str, case: str, traceback: bool) -> None:
    args = cases(url)[case]
    with pytest.MonkeyPatch.context() as patch:
        if traceback:
            patch.setenv("LOCALQUEUE_TRACEBACK", "1")
        no_secret(run(*args))


@given(addresses)
@some
def test_the_config_file_is_shown_without_its_password(url: str) -> None:
    no_secret(run("config", "init", "--force", "--store-url", url))
    shown = run("config", "show", "--json")
    no_secret(shown)
    no_secret(run("config", "show", "--no-json"))
    assert shown.code == 0 and set(shown.json) == {"store_url"}
    assert Config.load().store_url == url and not leaked(repr(Config.load()))


@given(
    addresses,
    st.sampled_from(["store_url: [{}", "store_url {}", "{}: 1", "- {}", "store_url: [x, {}]", "{}", "a: '{}"]),
)
@some
def test_a_broken_config_file_is_not_quoted(url: str, form: str) -> None:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(form.format(url), encoding="utf-8")
    no_secret(run("config", "show"))
    no_secret(run("queue", "size", "jobs"))


def test_no_command_prints_its_variables_in_a_traceback() -> None:
    rest = [app.build()]
    while rest:
        one = rest.pop()
        assert not one.pretty_exceptions_enable
        rest += [group.typer_instance for group in one.registered_groups if group.typer_instance is not None]
