"""The table of brokers: the page has it, it loads no driver, and every test that it names is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from localqueue.brokers import CAPABILITIES, capabilities, capabilities_of, open_broker
from localqueue.brokers.url import BROKERS
from localqueue.stores.url import BACKENDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "providers.md").read_text()
DRIVERS = {"pika", "boto3", "confluent_kafka", "redis", "psycopg", "pymongo", "lmdb"}


def test_the_page_holds_the_table() -> None:
    assert capabilities.as_markdown() in PAGE


def test_the_table_can_be_printed_without_a_driver() -> None:
    code = "import runpy, sys; runpy.run_module('localqueue.brokers'); print('', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == capabilities.as_markdown()
    assert DRIVERS.isdisjoint(done.stderr.split())


def test_every_broker_and_store_has_a_row() -> None:
    rows = {one.name for one in CAPABILITIES}
    assert set(BROKERS) | set(BACKENDS) <= rows
    assert rows - set(BROKERS) - set(BACKENDS) == {"rabbitmq-classic", "sqs-fifo"}
    with pytest.raises(ValueError, match="there is no broker 'zeromq'; there are rabbitmq, "):
        capabilities_of("zeromq")


def test_a_row_agrees_with_itself() -> None:
    for one in CAPABILITIES:
        assert (one.push == "none") == (one.fallback == "poll only"), one.name
        assert (one.model == "poll") >= (one.push == "signal"), one.name
        assert one.renewal == (one.lease == "timeout"), one.name
        assert bool(one.dedupe_window) == one.dedupe, one.name
        assert one.delay or one.longest_delay is None, one.name


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://user:geheim1@host", "the address of a broker is amqp://"),
        ("jobs.db", "the address of a broker is amqp://"),
        ("", "the address of a broker is amqp://"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        open_broker(url)
    assert "geheim1" not in str(refused.value)
    with pytest.raises(TypeError, match="is a text such as amqp://localhost"):
        open_broker(None)  # type: ignore[arg-type]


def test_every_proof_that_the_page_names_is_there() -> None:
    proofs = re.findall(r"`(tests/[\w/]+\.py|src/localqueue/contracts/\w+\.py)::(\w+)`", PAGE)
    assert len(proofs) >= 9
    for path, name in proofs:
        tree = ast.parse((ROOT / path).read_text())
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in found, f"{path}::{name}"
