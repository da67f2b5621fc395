"""A local session does not depend on what the host's name leads to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.host import SETTINGS, use_address, wrong_name

NOWHERE = "192.0.2.7"  # an address that no machine has


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host whose name nobody knows, and an environment that does not say more."""
    for name in (*SETTINGS, "MASTER"):
        monkeypatch.setenv(name, "")  # so that what is set is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(socket, "gethostname", lambda: "nobody-knows-me")
    monkeypatch.setattr(socket, "getaddrinfo", fails)
    return monkeypatch


def fails(*given: Any, **options: Any) -> Any:
    raise socket.gaierror(-2, "Name or service not known")


def leads_to(address: str) -> Any:
    return lambda *given, **options: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]


def test_a_name_that_leads_to_this_machine_is_left_to_spark(host: pytest.MonkeyPatch) -> None:
    host.setattr(socket, "getaddrinfo", leads_to("127.0.0.1"))
    assert wrong_name() is None
    use_address("local[2]", {})
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_name_that_leads_nowhere_or_elsewhere_is_not_used(host: pytest.MonkeyPatch) -> None:
    assert wrong_name() == "the host's name 'nobody-knows-me' leads to no address"
    use_address("local[2]", {})
    assert os.environ.pop("SPARK_LOCAL_IP") == "127.0.0.1"
    host.setattr(socket, "getaddrinfo", leads_to(NOWHERE))
    assert f"leads to {NOWHERE}, which is not an address of this machine" in (wrong_name() or "")
    use_address(None, {})
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_user_has_set_stays(host: pytest.MonkeyPatch, name: str) -> None:
    host.setenv(name, "10.1.1.1")
    use_address("local", {})
    assert {name: os.environ.get(name) for name in SETTINGS if name in os.environ} == {name: "10.1.1.1"}


def test_a_cluster_has_to_reach_the_driver_under_its_own_address(host: pytest.MonkeyPatch) -> None:
    use_address("spark://host:7077", {})
    use_address(None, {"spark.master": "yarn"})
    host.setenv("MASTER", "k8s://host")
    use_address(None, {})
    assert "SPARK_LOCAL_IP" not in os.environ


A_SESSION = """
import socket, sys

def fails(*given, **options):
    raise socket.gaierror(-2, "Name or service not known")

from localqueue.spark import host, session
look_up, socket.getaddrinfo = socket.getaddrinfo, fails
host.use_address("local[1]", {})
socket.getaddrinfo = look_up
spark = session(master="local[1]", conf={"spark.driver.extraJavaOptions": "-Djdk.net.hosts.file=" + sys.argv[1]})
print(spark.range(3).count(), spark.range(3).mapInArrow(lambda batches: batches, "id bigint").count())
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_local_session_runs_where_java_can_not_look_up_the_host(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-c", A_SESSION, str(tmp_path / "hosts")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    assert (done.returncode, done.stdout) == (0, "3 3\n"), done.stderr
