"""Any bytes as a config file, and any words in the environment: read, or refused in one line without a password."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.cli.config import KEYS, Config, config_path
from localqueue.stores import default
from tests.fuzz.commands import SECRET, call, in_order, secret, typed
from tests.fuzz.effort import examples
from tests.fuzz.words import words

pytestmark = pytest.mark.slow

LAUGHS = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n" % (n + 1, n + 1, *[n] * 6) for n in range(ord("a"), ord("l"))
)
ODD = [
    "[" * 500, "{" * 500, "2026-13-45", "0x" + "f" * 5000, "1" + "0" * 400, ".inf", "-.inf", ".nan", "!!binary x",
    "yes", "!!python/object:os.system x", "&a [*a]", "*a", "? [1]", "<<: 1", "!!set {a}", "1:30:00", "!!timestamp x",
    "2026-01-01 00:00:00 +99:99", "!!bool x", "!!int x", "!!int", "!!float", "!!float x", "\t", "|", "%YAML 9",
    "---\n---", "'\\u0000'", '"\\ud800"', "1e400", "~", "",
]  # fmt: skip
values = st.one_of(
    st.sampled_from(ODD),
    words.map(lambda one: one[:500]),
    secret,
    st.builds(lambda one: yaml.safe_dump(one), st.floats() | st.integers()),
)
entries = st.builds(lambda key, value: f"{key}: {value}\n", st.sampled_from(KEYS) | words, values)
contents: st.SearchStrategy[bytes] = st.one_of(
    st.lists(entries, min_size=1, max_size=3).map(lambda one: "".join(one).encode("utf-8", "surrogatepass")),
    entries.map(lambda one: one.encode("utf-16", "surrogatepass")),
    values.map(lambda one: one.encode("utf-8", "surrogatepass")),
    st.binary(max_size=60),
)
LINES = [
    ["config", "show"],
    ["config", "set", "namespace", "x"],
    ["config", "unset", "store_url"],
    ["queue", "size", "jobs"],
]


def write(content: bytes) -> Path:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@given(content=contents, line=st.sampled_from(LINES))
@example(content=b"[" * 500, line=LINES[0])
@example(content=b"namespace: !!timestamp x", line=LINES[0])
@example(content=b"store_url: 2026-13-45", line=LINES[0])
@example(content=b"dead_letter_ttl_seconds: 0x" + b"f" * 5000, line=LINES[0])
@example(content=LAUGHS + b"dead_letter_ttl_seconds: *l", line=LINES[0])
@example(content=LAUGHS + b"? *l\n: 1", line=LINES[0])
@example(content=b"0x" + b"f" * 5000 + b": 1", line=LINES[0])
@example(content=b'namespace: "\\ud800"', line=LINES[2])
@example(content=b'store_path: "a\\0b"', line=LINES[3])
@examples(40)
def test_any_file_is_read_or_refused(home: Path, content: bytes, line: list[str]) -> None:
    path = write(content)
    ran = call(line)
    in_order(ran)
    assert SECRET not in ran.out
    if ran.code != 0:
        assert path.read_bytes() == content


@given(key=st.sampled_from(KEYS), value=typed | secret)
@example(key="namespace", value="\udcff")
@example(key="dead_letter_ttl_seconds", value="9" * 5000)
@examples(25)
def test_what_was_set_is_what_is_read(home: Path, key: str, value: str) -> None:
    config_path().unlink(missing_ok=True)
    ran = call(["config", "set", key, "--", value])
    in_order(ran)
    assert SECRET not in ran.out
    found = Config.load().as_dict()
    if ran.code:
        assert not config_path().exists()
    else:
        assert found == {key: float(value) if key.endswith("_seconds") else value}


@pytest.mark.parametrize("what", ["a directory", "a FIFO", "a link to itself", "a device"])
def test_what_is_no_file_is_refused(home: Path, what: str) -> None:
    path = config_path()
    path.parent.mkdir(parents=True)
    if what == "a directory":
        path.mkdir()
    elif what == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(path if what == "a link to itself" else "/dev/zero")
    ran = call(["config", "show"])
    in_order(ran)
    assert ran.code and str(path) in ran.err


@given(
    backend=st.none() | st.sampled_from(["sqlite", "lmdb", "memory"]) | typed,
    url=st.none() | secret | typed | typed.map(lambda one: f"sqlite:///{one}"),
    namespace=st.none() | typed,
    home_of=st.sampled_from(["XDG_CONFIG_HOME", "XDG_DATA_HOME"]),
    place=st.none() | typed,
)
@example(backend=None, url=None, namespace="\udcff", home_of="XDG_DATA_HOME", place=None)
@example(backend=None, url=None, namespace=None, home_of="XDG_DATA_HOME", place="\udcff")
@examples(25)
def test_any_environment_is_used_or_refused(
    home: Path, backend: str | None, url: str | None, namespace: str | None, home_of: str, place: str | None
) -> None:
    given_: dict[str, Any] = {
        "LOCALQUEUE_BACKEND": backend, "LOCALQUEUE_URL": url, "LOCALQUEUE_NAMESPACE": namespace, home_of: place,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given_.items():
            if value is not None:
                patch.setenv(name, value)
        in_order(call(["queue", "size", "jobs"]))
        in_order(call(["queue", "add", "jobs", "--value", "1"]))
        assert SECRET not in default.described()
