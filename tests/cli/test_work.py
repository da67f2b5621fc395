"""`localqueue work`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment, run, run_process, started, wait_until
from tests.cli.shop_tasks import fail, note, note_async, tasks

pytestmark = pytest.mark.slow  # each test runs the command

TASKS = "tests.cli.shop_tasks:tasks"
SEEN = Path("seen.txt")


def seen() -> list[str]:
    return sorted(SEEN.read_text().splitlines()) if SEEN.exists() else []


@pytest.fixture(autouse=True)
def _closed_after() -> Iterator[None]:
    yield
    tasks.close()


def test_one_command_empties_all_queues_and_says_what_it_works_for() -> None:
    jobs = [note.enqueue("one"), note_async.enqueue("two")]

    ran = run_process("work", TASKS, "--until-empty", env=environment())

    assert ran.code == 0 and ran.json["acked"] == 2
    assert seen() == ["one", "two"]
    assert [job.result(timeout=0) for job in jobs] == ["one", "two"]
    lines = ran.err.splitlines()
    assert lines[0].startswith("localqueue ") and f"works for {TASKS}" in lines[0]
    assert lines[1].split()[0] == "store" and "sqlite" in lines[1]
    assert "  queue     mail (8 threads): note, fail, report" in lines
    assert "  queue     loop (8 jobs on asyncio): note_async" in lines
    assert "  schedule  0 7 * * * Europe/Lisbon: report" in lines
    assert "INFO    note" in ran.err and "succeeded in" in ran.err


def test_jobs_that_were_dead_lettered_are_an_exit_code_and_a_traceback_in_the_log() -> None:
    fail.enqueue("paper")

    ran = run_process("work", TASKS, "--until-empty", "--queue", "mail", env=environment())

    assert ran.code == 1 and ran.json["dead_lettered"] == 1
    assert (
        "WARNING fail " in ran.err and "ConnectionError" in ran.err and "no paper" in ran.err and "in fail" in ran.err
    )


def test_a_module_with_one_tasks_needs_no_name() -> None:
    note.enqueue("one")

    assert run("work", "tests.cli.shop_tasks", "--until-empty").code == 0
    assert seen() == ["one"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tests.cli.shop_tasks:nothing"], "no Tasks"),
        (["tests.cli.shop_tasks:missing"], "missing"),
        (["tests.cli.nowhere"], "can not import 'tests.cli.nowhere'"),
        (["tests.cli.jobs"], "has none"),
        ([TASKS, "--queue", "other"], "no task is put into queue 'other'"),
        ([TASKS, "--queue", "mail=much"], "must be a number"),
        ([TASKS, "--log-level", "loud"], "--log-level"),
    ],
)
def test_a_mistake_is_named(words: list[str], said: str) -> None:
    ran = run("work", *words, "--until-empty")

    assert ran.code != 0 and said in ran.err


@pytest.mark.multiprocess
def test_it_works_until_it_is_stopped() -> None:
    with started("work", TASKS, env=environment()) as process:
        note.enqueue("one")
        wait_until(lambda: seen() == ["one"], "the job")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.multiprocess
def test_it_starts_anew_when_a_file_changes(tmp_path: Path) -> None:
    module = Path("changing.py")
    text = (
        "from pathlib import Path\n"
        "from localqueue import Tasks\n"
        "tasks = Tasks()\n"
        "@tasks.task(queue='changing')\n"
        "def note() -> None:\n"
        "    with Path('seen.txt').open('a') as file: file.write('before\\n')\n"
    )
    module.write_text(text)
    with started("work", "changing", "--reload", env=environment()) as process:
        tasks.queue("changing").put({"task": "note", "args": {}})
        wait_until(lambda: seen() == ["before"], "the first job")
        module.write_text(text.replace("before", "after"))

        def again() -> bool:
            if "after" not in seen():
                tasks.queue("changing").put({"task": "note", "args": {}})
            return "after" in seen()

        wait_until(again, "the new code")
        process.send_signal(signal.SIGINT)
        process.wait(60)
