"""Jars for the tests, from Maven's central repository through the Ivy that PySpark carries."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from localqueue.spark.java import find_java


def cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "localqueue"


def install(home: Path, wanted: Sequence[str]) -> None:
    """Fetch jars into this folder of the cache unless it is there, without what they need; one run at a time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if home.is_dir():
            return
        print(f"Fetching {home.name} ...", flush=True)
        with appearing(home) as folder:
            said = fetch(find_java().program, f"{home.name}-for-tests", wanted, folder, transitive=False)
            if len(list(folder.glob("*.jar"))) != len(wanted):
                raise FileNotFoundError(f"{home.name} could not be fetched: {said[-1000:]}")


def fetch(java: str, name: str, wanted: Sequence[str], folder: Path, *, transitive: bool = True) -> str:
    """Put jars (`group:artifact:version`) into a folder, with all they need unless told otherwise; what Ivy said."""
    dependencies = "".join(
        '<dependency org="{}" name="{}" rev="{}" conf="default->default" transitive="{}"/>'.format(
            *one.split(":"), str(transitive).lower()
        )
        for one in wanted
    )
    with tempfile.TemporaryDirectory() as scratch:
        asked = Path(scratch, "ivy.xml")
        asked.write_text(
            f'<ivy-module version="2.0"><info organisation="localqueue" module="{name}"/><configurations>'
            f'<conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
        )
        fetched = subprocess.run(
            [
                *(java, "-XX:TieredStopAtLevel=1", *_trust(Path(scratch))),
                *("-Divy.maven.lookup.sources=false", "-Divy.maven.lookup.javadoc=false"),
                *("-jar", str(_ivy()), "-cache", str(Path(scratch, "cache")), "-ivy", str(asked)),
                *("-confs", "default", "-types", "jar", "bundle"),
                *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
            ],
            capture_output=True,
            text=True,
        )
    return fetched.stdout + fetched.stderr


@contextmanager
def appearing(at: Path) -> Iterator[Path]:
    """A place beside `at` that takes its name when the block has ended well."""
    with tempfile.TemporaryDirectory(prefix=f"{at.name}-", dir=at.parent) as beside:
        made = Path(beside) / at.name
        yield made
        if made.exists():
            made.rename(at)


def _trust(scratch: Path) -> tuple[str, ...]:
    """Java has a list of authorities of its own. Where the environment names one for this machine, that is used."""
    named = os.environ.get("SSL_CERT_FILE")
    if not named:
        return ()
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entries = []
    for number, text in enumerate(
        re.findall(rb"-----BEGIN CERT.*?-----END CERTIFICATE-----", Path(named).read_bytes(), re.S)
    ):
        with warnings.catch_warnings(action="ignore"), suppress(ValueError):  # some old ones break the rules
            entries.append(pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(text), str(number).encode()))
    store = scratch / "authorities"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(b"public")))
    return f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=public"


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for place in () if spec is None else spec.submodule_search_locations or ():
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise FileNotFoundError("PySpark, whose Ivy fetches jars, is not installed: run ./script/setup test")
