"""Real brokers for tests, beside the servers of the stores: `RabbitMQ`, `Kafka` and `SQS`, and PGMQ in a PostgreSQL.

They start, are killed, come back and end as those do (tests/servers.py). Ask for the fixtures `rabbitmq`, `kafka`,
`sqs_server` and `pgmq`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests import kafka_program
from tests.servers import PortTaken, Postgres, Server, free_port, has_port, has_process

_ALARM_WITHIN = 20.0

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on the PATH changes the user
_LITTLE, _MORE_THAN_THERE_IS = 1_000_000, 10**18  # free bytes on the disk
_RABBITMQ_SETTINGS = f"""\
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = {_LITTLE}
raft.wal_max_size_bytes = 67108864
"""
# The port mapper stays in the process group of the server, which is ended as a whole.
_RABBITMQ_LAUNCH = 'epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & echo $! >epmd; exec "$0"'


class RabbitMQ(Server):
    """A node with a port mapper (epmd) of its own, so that no other RabbitMQ of this machine is met.

    It is named `@localhost`: the name of the host need not resolve. Durable queues survive `kill` and `start`.
    """

    name = "rabbitmq"
    port_taken = re.compile("(?i)address already in use|eaddrinuse")

    def __init__(self) -> None:
        super().__init__()
        (self.folder / "rabbitmq.conf").write_text(_RABBITMQ_SETTINGS)
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "home" / "plugins").mkdir(parents=True)
        for application in _applications_of("rabbit"):
            (self.folder / "home" / "plugins" / application.name).symlink_to(application)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def take_ports(self) -> None:
        super().take_ports()
        self.mapper_port, self.node_port = free_port(), free_port()

    def launch(self) -> subprocess.Popen[bytes]:
        if not _RABBITMQ.exists():
            pytest.skip("RabbitMQ is not installed: run ./script/test, or install the package rabbitmq-server")
        return self.run(
            *("sh", "-c", _RABBITMQ_LAUNCH, str(_RABBITMQ)),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            env=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PATH": os.environ.get("PATH", os.defpath),
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_HOME": str(self.folder / "home"),
            "RABBITMQ_PLUGINS_DIR": str(self.folder / "home" / "plugins"),
            "RABBITMQ_NODENAME": "test@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_PID_FILE": str(self.folder / "rabbitmq.pid"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_ALLOW_INPUT": "true",  # no shell stays between this process and the server
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-noinput -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }

    def ready(self) -> bool:
        import pika

        if not has_process(self.mapper) or not has_port(self.mapper, self.mapper_port):
            raise PortTaken(self.mapper_port)
        pika.BlockingConnection(pika.URLParameters(self.url)).close()
        return True

    @property
    def mapper(self) -> int:
        """The process id of the port mapper."""
        return int((self.folder / "epmd").read_text())

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        group = self.process.pid
        super()._end(how)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        with suppress(FileNotFoundError):  # killed before there was one
            while has_process(self.mapper):
                time.sleep(0.005)  # until the system has ended it
            (self.folder / "epmd").unlink()

    def save_declarations(self) -> None:
        """Have new quorum queues on the disk before a `kill`.

        RabbitMQ itself writes them down some time later. Killed before that, it has messages of a queue that it can
        not start.
        """
        self.evaluate("[dets:sync(Table) || Table <- dets:all()]")

    def raise_disk_alarm(self) -> None:
        """From now on the node takes no messages: it wants more free disk than there is."""
        self._want_free_disk(_MORE_THAN_THERE_IS)

    def clear_disk_alarm(self) -> None:
        self._want_free_disk(_LITTLE)

    def _want_free_disk(self, size: int) -> None:
        self.evaluate(f"rabbit_disk_monitor:set_disk_free_limit({size})")
        deadline = time.monotonic() + _ALARM_WITHIN
        while ("disk" in self.evaluate("rabbit_alarm:get_alarms()")) is (size == _LITTLE):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the alarm did not change within {_ALARM_WITHIN} s: {self.log()}")
            time.sleep(0.02)  # between two looks

    def evaluate(self, expression: str) -> str:
        """What an Erlang expression is on the node."""
        cookie = (self.folder / ".erlang.cookie").read_text()
        done = subprocess.run(
            ["erl_call", "-c", cookie, "-n", "test@localhost", "-e"],
            input=f"{expression}.\n",
            env=self._environment(),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0 or not done.stdout.startswith("{ok,"):
            raise RuntimeError(f"{expression} failed: {done.stdout}{done.stderr}")
        return done.stdout


@functools.cache
def _applications_of(root: str) -> tuple[Path, ...]:
    """The folders of an Erlang application and of all that it is built on, as far as RabbitMQ brings them.

    A node that sees only these starts in two thirds of the time: it reads through all that it finds.
    """
    folders: dict[str, Path] = {}
    wanted = [root]
    while wanted:
        name = wanted.pop()
        for described in _RABBITMQ.resolve().parent.parent.glob(f"plugins/*/ebin/{name}.app"):
            folders[name] = described.parent.parent
            listed = re.search(r"{\s*applications\s*,\s*\[(.*?)]", described.read_text(), re.DOTALL)
            named = re.findall(r"\w+", listed[1]) if listed is not None else []
            wanted += [other for other in named if other not in folders]
    return tuple(folders.values())


class Kafka(Server):
    """One node in KRaft mode, broker and controller. Topics are not made by using them."""

    name = "kafka"
    ends_within = 120.0  # Java may have an archive to write

    def __init__(self, *java_options: str) -> None:
        super().__init__()
        self.java_options = java_options

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    def take_ports(self) -> None:
        super().take_ports()
        self.controller_port = free_port()

    def launch(self) -> subprocess.Popen[bytes]:
        data, settings = self.folder / "data", self.folder / "settings"
        settings.write_text(kafka_program.settings(data=data, port=self.port, controller=self.controller_port))
        try:
            command = kafka_program.command(settings, *self.java_options)
        except kafka_program.NoKafka as error:
            pytest.skip(str(error))
        if not data.exists():
            kafka_program.copy_data(data)
        return self.run(*command, cwd=self.folder)

    def ready(self) -> bool:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        return bool(admin.list_topics(timeout=1).brokers)


class Amazon(Server):
    """Services of Amazon, from an emulator (moto): it keeps all in memory and forgets it when it ends."""

    name = "amazon"

    @property
    def client_options(self) -> dict[str, str]:
        """What `boto3.client("sqs", ...)` wants to know."""
        return {
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    def launch(self) -> subprocess.Popen[bytes]:
        if importlib.util.find_spec("moto") is None:
            pytest.skip("moto is not installed: run ./script/setup test")
        return self.run(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port), cwd=self.folder)

    def ready(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/data.json", timeout=5) as answer:
            return bool(answer.status == 200)


class SQS(Amazon):
    """The API of Amazon SQS."""

    name = "sqs"

    @property
    def url(self) -> str:
        return f"sqs://test:test@127.0.0.1:{self.port}/?region=us-east-1"


class S3(Amazon):
    """The API of Amazon S3."""

    name = "s3"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spark_conf(self) -> dict[str, str]:
        """What Hadoop wants to know, to be set for a bucket or for all."""
        return {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
        }

    def make_bucket(self, name: str) -> None:
        import boto3

        boto3.client("s3", **self.client_options).create_bucket(Bucket=name)


@functools.cache
def pgmq_url(postgres: Postgres) -> str:
    """A database of this server that has PGMQ's own SQL, as `pgmq://...`."""
    if importlib.util.find_spec("pgmq") is None:
        pytest.skip("pgmq is not installed: run ./script/setup test")
    import psycopg
    from pgmq.install import install_pgmq_from_sql

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE pgmq")
    url = f"test@127.0.0.1:{postgres.port}/pgmq"
    install_pgmq_from_sql(dsn=f"postgresql://{url}")
    return f"pgmq://{url}"
