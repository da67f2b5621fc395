"""The plugin of pytest, run by a pytest of its own."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.test_import import modules_loaded_by

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not the entry point of this very tree is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "localqueue.testing.plugin")


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"localqueue": "localqueue.testing.plugin"}
    assert import_module("localqueue.testing.plugin")


def test_the_plugin_loads_no_queue_and_no_store_before_a_fixture_is_asked_for() -> None:
    loaded = modules_loaded_by("import localqueue.testing.plugin")

    assert {name for name in loaded if name.startswith("localqueue")} == {
        "localqueue",
        "localqueue._exports",
        "localqueue._version",
        "localqueue.testing",
        "localqueue.testing.plugin",
    }


@pytest.mark.slow
def test_queues_of_the_code_under_test_live_in_memory_and_each_test_begins_anew(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop="""
        from localqueue import PersistentQueue

        mails = PersistentQueue("mails")

        def sign_up(address):
            mails.put({"to": address}, delay=60)
        """,
        test_shop="""
        import pytest
        import shop
        from localqueue.testing import assert_enqueued, drain

        @pytest.mark.parametrize("address", ["ada@example.com", "bob@example.com"])
        def test_a_mail_is_sent(localqueue_store, localqueue_clock, address):
            sent = []
            shop.sign_up(address)
            assert_enqueued("mails", {"to": address}, count=1, delay=60)
            assert shop.mails.store is localqueue_store
            assert drain(shop.mails, sent.append) == []
            localqueue_clock.advance(60)
            drain(shop.mails, sent.append)
            assert sent == [{"to": address}]
        """,
    )

    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_failed_assertion_ends_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from localqueue import PersistentQueue
        from localqueue.testing import assert_enqueued

        def test_a_mail_is_sent(localqueue_store):
            PersistentQueue("mails").put({"to": "ada"})
            assert_enqueued("mails", {"to": "bob"})
        """)
    result = pytester.runpytest_subprocess("-q")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*assert_enqueued(*bob*",
            "E*AssertionError: no message has value={'to': 'bob'}",
            "E*queue 'mails' has 1:",
            "E*{'to': 'ada'}",
            "E*value?'to'? is 'ada', not 'bob'",
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")


@pytest.mark.slow
def test_the_programs_of_the_documentation_run(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    programs = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(programs) == page.count("```python")
    for name, text in programs:
        (pytester.path / name).write_text(text)
    result = pytester.runpytest_subprocess("-q")

    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": page.count("    def test_") + page.count("\ndef test_")}
