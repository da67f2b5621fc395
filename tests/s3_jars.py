"""Spark's driver for S3 (`s3a://`) for the tests: hadoop-aws and the few parts of Amazon's SDK that it uses here.

`python -m tests.s3_jars` puts them into the user's cache folder where they are missing; `./script/servers` calls it.
The bundle that hadoop-aws asks for has all of Amazon's services, over 600 MB; these are 13 MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

from localqueue.spark.java import NoJava
from tests import maven_jars

#: hadoop-aws is of the version of the Hadoop that PySpark carries, the SDK of the one that hadoop-aws was built with.
HADOOP, SDK = "3.5.0", "2.35.4"
_SDK = [
    "annotations",
    "apache-client",
    "arns",
    "auth",
    "aws-core",
    "aws-query-protocol",
    "aws-xml-protocol",
    "checksums",
    "checksums-spi",
    "crt-core",
    "endpoints-spi",
    "http-auth",
    "http-auth-aws",
    "http-auth-aws-eventstream",
    "http-auth-spi",
    "http-client-spi",
    "identity-spi",
    "json-utils",
    "metrics-spi",
    "netty-nio-client",
    "profiles",
    "protocol-core",
    "regions",
    "retries",
    "retries-spi",
    "s3",
    "s3-transfer-manager",
    "sdk-core",
    "sts",
    "third-party-jackson-core",
    "utils",
    "utils-lite",
]
_WANTED = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    "software.amazon.eventstream:eventstream:1.0.1",
    "org.reactivestreams:reactive-streams:1.0.4",
    *(f"software.amazon.awssdk:{name}:{SDK}" for name in _SDK),
)


def home() -> Path:
    return maven_jars.cache() / f"s3a-{HADOOP}-{SDK}"


def jars() -> list[str]:
    """The paths of the jars; none when they were not fetched."""
    return sorted(map(str, home().glob("*.jar")))


def install() -> None:
    """Fetch what is missing."""
    maven_jars.install(home(), _WANTED)


if __name__ == "__main__":
    try:
        install()
    except (NoJava, FileNotFoundError) as error:
        sys.exit(str(error))
