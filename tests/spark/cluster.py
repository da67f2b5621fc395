"""A standalone Spark cluster on this machine: a master, workers and drivers of applications, each a process of its own.

They start, are killed and end as the servers of the stores do (tests/servers.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from localqueue.spark.java import use_java
from tests.servers import Server, free_port

#: Short jobs: compiling them well costs more than running them badly. The tests look for ports of IPv4.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"

#: At 0 a server whose port is taken ends, and does not take the next one.
ONE_PORT = "spark.port.maxRetries"

#: What the machines of a cluster have: a Python, in which nothing of ours is installed.
NODE_PATH = "/usr/local/bin:/usr/bin:/bin"

WORKERS = 2


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


class SparkServer(Server):
    """A JVM of Spark, in an environment that knows nothing of the checkout or of the Python that runs the tests."""

    main: str
    memory = "256m"
    ready_within = 180.0

    def arguments(self) -> list[str]:
        raise NotImplementedError

    def place(self) -> Path:
        """The folder it runs in."""
        return self.folder

    def launch(self) -> subprocess.Popen[bytes]:
        use_java()
        home = spark_home()
        kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
        return self.run(
            *(str(home / "bin" / "spark-class"), self.main, *self.arguments()),
            cwd=self.place(),
            env={
                **kept,
                "PATH": NODE_PATH,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": self.memory,
                "SPARK_DAEMON_JAVA_OPTS": " ".join((self.java(), f"-D{ONE_PORT}=0", *self.java_options())),
                "SPARK_LOCAL_DIRS": str(self.folder / "local"),
                **self.environment(),
            },
        )

    def environment(self) -> dict[str, str]:
        return {}

    def java(self) -> str:
        """How its Java is started: what a killed one leaves is in the folder, and goes with it."""
        return f"{QUICK} -Djava.io.tmpdir={self.folder}"

    def java_options(self) -> tuple[str, ...]:
        return ()

    def ready(self) -> bool:
        return True

    def _end(self, how: signal.Signals) -> None:
        """With what it has started: the executors of a worker, the program of a driver."""
        group = None if self.process is None else self.process.pid
        super()._end(how)
        if group is not None:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


class Master(SparkServer):
    """Keeps what it knows on the disk: started again after a kill it finds its workers and applications."""

    name = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def take_ports(self) -> None:
        super().take_ports()
        self.page_port = free_port()

    def arguments(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page_port)]

    def java_options(self) -> tuple[str, ...]:
        folder = self.folder / "recovery"
        return ("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={folder}")

    def page(self) -> dict[str, Any]:
        """What it says of itself: its state, its workers and the applications that run."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=20) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:  # it has no pages yet; the answer is open in the error
            error.close()
            raise

    def ready(self) -> bool:
        return bool(self.page())

    def is_whole(self, cores: dict[str, int]) -> bool:
        """Whether all workers are there, and applications of these names with so many cores."""
        page = self.page()
        alive = [worker for worker in page["workers"] if worker["state"] == "ALIVE"]
        running = {app["name"]: app["cores"] for app in page["activeapps"] if app["state"] == "RUNNING"}
        return page["status"] == "ALIVE" and len(alive) == WORKERS and running == cores


class Worker(SparkServer):
    name = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, master: Master, *, cores: int = 2) -> None:
        super().__init__()
        self.master, self.cores = master, cores

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return [
            *("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"),
            *("--cores", str(self.cores), "--memory", "2g", "--work-dir", str(self.folder / "work"), self.master.url),
        ]


class Submitted(SparkServer):
    """The driver of an application."""

    memory = "1g"
    main = "org.apache.spark.deploy.SparkSubmit"
    executors: int  # of one core each, on workers of their own as far as there are

    def __init__(self, master: Master, python: str) -> None:
        super().__init__()
        self.master, self._python = master, python

    def environment(self) -> dict[str, str]:
        return {"PYSPARK_PYTHON": self._python}

    def program(self) -> list[str]:
        raise NotImplementedError

    def conf(self) -> dict[str, str]:
        raise NotImplementedError

    def arguments(self) -> list[str]:
        conf = {
            "spark.executor.cores": "1",
            "spark.cores.max": str(self.executors),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": self.java(),
            "spark.executor.extraJavaOptions": self.java(),
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            ONE_PORT: "0",
            **self.conf(),
        }
        said = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        return ["--master", self.master.url, "--name", self.name, *said, *self.program()]


class Application(Submitted):
    """A program in Python that spark-submit runs with an archive, in the folder where that was made.

    Spark starts the Python of the archive by the same name where the driver runs, so the environment has to be there.
    """

    name = "spark-application"
    executors = WORKERS

    def __init__(self, master: Master, archive: Path, *program: str) -> None:
        super().__init__(master, "./env/bin/python")
        self._archive, self._program = archive, program

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def place(self) -> Path:
        return self._archive.parent

    def conf(self) -> dict[str, str]:
        return {"spark.driver.port": str(self.port)}

    def program(self) -> list[str]:
        return ["--archives", f"{self._archive.name}#env", *self._program]


class Connect(Submitted):
    """A Spark Connect server, whose Python has one path on every machine."""

    name = "spark-connect"
    executors = 1

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def conf(self) -> dict[str, str]:
        return {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
        }

    def program(self) -> list[str]:
        return ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
