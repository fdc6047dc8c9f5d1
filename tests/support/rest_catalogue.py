"""A REST catalogue of Apache Iceberg's own classes in a process: their tests' servlet over their
catalogue in SQLite, from Maven Central. It answers to nobody without its token, and writes the
tables' metadata into the S3 that it is given.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.maven import compiled, maven_jars
from tests.support.moto_s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.support.short_lived_java import JVM_OPTIONS

VERSION = "1.10.0"
TOKEN = "open-sesame-7d1f"
SOURCE = Path(__file__).parent / "java" / "RestCatalogue.java"
JARS = {
    "org.apache.iceberg:iceberg-core": VERSION,
    "org.apache.iceberg:iceberg-core:tests": VERSION,
    "org.apache.iceberg:iceberg-aws": VERSION,
    "org.apache.iceberg:iceberg-aws-bundle": VERSION,
    "org.eclipse.jetty:jetty-servlet": "11.0.24",
    "org.xerial:sqlite-jdbc": "3.50.3.0",
    "org.slf4j:slf4j-nop": "2.0.16",
}


@contextmanager
def rest_catalogue(directory: Path, s3_url: str, warehouse: str) -> Iterator[str]:
    """Its URL, while it runs. Skips the test without Java or Maven."""
    class_path = compiled(SOURCE, maven_jars(f"iceberg-rest-{VERSION}", JARS))
    properties = {
        "uri": f"jdbc:sqlite:{directory}/rest.db",
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "s3.endpoint": s3_url,
        "s3.path-style-access": "true",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    words = [f"{name}={text}" for name, text in properties.items()]
    process = subprocess.Popen(
        ["java", *JVM_OPTIONS, "-cp", class_path, "RestCatalogue", TOKEN, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
