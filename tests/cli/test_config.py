"""`localqueue config`, and what the config file means to the other commands."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml

from tests.cli.command import run

FILE = Path("config/localqueue/config.yaml")


def test_the_path_is_in_the_xdg_config_directory() -> None:
    assert run("config", "path").out.strip() == str(Path.cwd() / FILE)


def test_the_path_is_in_the_home_directory_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert run("config", "path").out.strip() == str(Path.cwd() / ".config/localqueue/config.yaml")


def test_without_a_file_nothing_is_set() -> None:
    assert run("config", "show").json == {}


def test_init_writes_what_it_was_given() -> None:
    ran = run("config", "init", "--store-path", "jobs.db", "--dead-letter-ttl-seconds", "60")
    assert (ran.code, ran.out.strip()) == (0, f"wrote config: {Path.cwd() / FILE}")
    assert yaml.safe_load(FILE.read_text()) == {"store_path": "jobs.db", "dead_letter_ttl_seconds": 60.0}
    assert run("config", "show").json == {"store_path": "jobs.db", "dead_letter_ttl_seconds": 60.0}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_file_and_its_directory_are_for_their_owner_alone(mask: int) -> None:
    before = os.umask(mask)
    try:
        run("config", "set", "store_url", "redis://:s3cret@host")
    finally:
        os.umask(before)
    assert (mode(FILE), mode(FILE.parent)) == (0o600, 0o700)


def test_a_file_that_everybody_could_read_is_closed_when_it_is_written_again() -> None:
    FILE.parent.mkdir(parents=True, mode=0o755)
    FILE.write_text("store_url: redis://:s3cret@host\n")
    FILE.chmod(0o644)
    left = FILE.with_name(f"{FILE.name}.{os.getpid()}.part")  # by one that was killed
    left.touch(mode=0o644)
    run("config", "set", "namespace", "blue")
    assert (mode(FILE), mode(FILE.parent)) == (0o600, 0o700)
    assert yaml.safe_load(FILE.read_text()) == {"store_url": "redis://:s3cret@host", "namespace": "blue"}
    assert not left.exists()


def test_a_path_that_is_an_address_is_refused() -> None:
    ran = run("config", "set", "store_path", "redis://:s3cret@host")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("'redis://host' is an address and not the path of a file") and not FILE.exists()


def test_init_overwrites_only_with_force() -> None:
    run("config", "init", "--store-path", "one.db")
    refused = run("config", "init", "--store-path", "two.db")
    assert refused.code == 1
    assert refused.err.strip() == f"config already exists: {Path.cwd() / FILE}; pass --force to overwrite"
    assert run("config", "init", "--store-path", "two.db", "--force").code == 0
    assert run("config", "show").json == {"store_path": "two.db"}


def test_set_changes_one_key_and_shows_all() -> None:
    run("config", "init", "--store-path", "jobs.db")
    ran = run("config", "set", "retry_record_ttl_seconds", "3600")
    assert ran.json == {"store_path": "jobs.db", "retry_record_ttl_seconds": 3600.0}


def test_unset_removes_a_key() -> None:
    run("config", "set", "store_path", "jobs.db")
    assert run("config", "unset", "store_path").json == {}


def test_an_unsupported_key_is_refused() -> None:
    ran = run("config", "set", "colour", "red")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("unsupported config key: colour")


@pytest.mark.parametrize("value", ["abc", "-1", "nan", "inf"])
def test_a_time_to_live_is_a_number_of_seconds(value: str) -> None:
    ran = run("config", "set", "--", "retry_record_ttl_seconds", value)
    assert ran.code == 2
    assert "retry_record_ttl_seconds must be a number of seconds" in ran.err
    assert not FILE.exists()


def test_one_place_for_the_store_is_enough() -> None:
    run("config", "set", "store_path", "jobs.db")
    ran = run("config", "set", "store_url", "sqlite:///other.db")
    assert (ran.code, ran.err.strip()) == (2, "store_path and store_url are both set; unset one of them")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("store_path: [", "is not valid YAML"),
        ("- store_path", "must be a mapping"),
        ("colour: red", "unsupported config key: colour"),
        ("store_path: 5", "store_path must be a text"),
        ("dead_letter_ttl_seconds: soon", "must be a number of seconds"),
    ],
)
def test_a_broken_file_is_a_mistake_of_one_line(text: str, problem: str) -> None:
    FILE.parent.mkdir(parents=True)
    FILE.write_text(text)
    ran = run("queue", "size", "jobs")
    assert ran.code == 2
    assert str(FILE) in ran.err and problem in ran.err and ran.err.count("\n") == 1


def test_a_file_that_is_not_text_is_a_mistake() -> None:
    FILE.parent.mkdir(parents=True)
    FILE.write_bytes(b"\xff\xfe")
    assert run("config", "show").code == 2


def test_an_empty_file_sets_nothing() -> None:
    FILE.parent.mkdir(parents=True)
    FILE.write_text("")
    assert run("config", "show").json == {}


def test_the_store_path_of_the_file_is_used_unless_another_is_given() -> None:
    run("config", "set", "store_path", "mine.db")
    run("queue", "add", "jobs", "--value", "1")
    assert Path("mine.db").exists()
    assert run("queue", "size", "jobs").out == "1\n"
    assert run("queue", "size", "jobs", "--store-path", "other.db").err.startswith("there is no store at ")
    assert run("queue", "size", "jobs", "--store", "sqlite:///mine.db").out == "1\n"


def test_the_store_url_and_namespace_of_the_file_are_used() -> None:
    run("config", "set", "store_url", "sqlite:///by-url.db")
    run("config", "set", "namespace", "blue")
    run("queue", "add", "jobs", "--value", "1")
    assert run("queue", "size", "jobs").out == "1\n"
    assert run("queue", "size", "jobs", "--namespace", "default").err.startswith("there is no namespace 'default' ")
    assert run("queue", "size", "jobs", "--store-path", "by-url.db").out == "1\n"
