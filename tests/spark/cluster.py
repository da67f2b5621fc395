"""A standalone Spark cluster on this machine: a master, workers and a Spark Connect server, each a process of its own.

They start, are killed and end as the servers of the stores do (tests/servers.py).
"""

from __future__ import annotations

import os
import subprocess
import urllib.request
from importlib.util import find_spec
from pathlib import Path

from localqueue.spark.java import use_java
from tests.servers import Server, free_port

#: Short jobs: compiling them well costs more than running them badly. The tests look for ports of IPv4.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"

#: What the machines of a cluster have: a Python, in which nothing of ours is installed.
NODE_PATH = "/usr/local/bin:/usr/bin:/bin"


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


class SparkServer(Server):
    """A JVM of Spark, in an environment that knows nothing of the checkout or of the Python that runs the tests."""

    main: str
    memory = "256m"

    def arguments(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {"PATH": NODE_PATH}

    def launch(self) -> subprocess.Popen[bytes]:
        use_java()
        home = spark_home()
        kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
        return self.run(
            *(str(home / "bin" / "spark-class"), self.main, *self.arguments()),
            cwd=self.folder,
            env={
                **kept,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": self.memory,
                "SPARK_DAEMON_JAVA_OPTS": " ".join((QUICK, *self.java_options())),
                "SPARK_LOCAL_DIRS": str(self.folder / "local"),
                "SPARK_NO_DAEMONIZE": "1",
                **self.environment(),
            },
        )

    def java_options(self) -> tuple[str, ...]:
        return ()

    def ready(self) -> bool:
        return True


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
        return (
            "-Dspark.deploy.recoveryMode=FILESYSTEM",
            f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}",
            "-Dspark.worker.timeout=5",
        )

    def page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=5) as answer:
            return str(answer.read().decode())

    def ready(self) -> bool:
        return bool(self.page())


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


class Connect(SparkServer):
    """A Spark Connect server, on this machine alone or on a cluster."""

    name = "spark-connect"
    main = "org.apache.spark.deploy.SparkSubmit"
    memory = "1g"

    def __init__(self, master: str, conf: dict[str, str], environment: dict[str, str]) -> None:
        super().__init__()
        self.master, self.conf, self._environment = master, conf, environment

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._environment}

    def arguments(self) -> list[str]:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            **self.conf,
        }
        said = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        return [
            *("--master", self.master, *said, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            "spark-internal",
        ]
