"""Spark's sources with other versions of pyspark: `make spark-newest`.

By default these are the newest one that pip finds, and one between it and that of `make test`;
others may be named. Each is kept in the cache, beside the environment that tests run in, and
shadows the pyspark of that. Their connectors may not be in Maven Central: ours is read alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

CONNECTOR_VARIABLE: Final = "PYBROKER_SPARK_CONNECTOR"
NO_CONNECTOR: Final = "none"
NEWEST: Final = "pyspark>=4.0,<5"
WANTED: Final = (NEWEST, "pyspark==4.1.*")
TESTS: Final = ("tests/compat/test_spark_sources.py", "tests/compat/test_spark_limits.py")


def install(wanted: str) -> Path:
    """Where it is."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    place = cache / (
        "pyspark-newest" if wanted == NEWEST else wanted.replace("==", "-").rstrip(".*")
    )
    if not any(place.glob("pyspark-*.dist-info")):
        print(f"installing {wanted} into {place} (430 MB) ...", flush=True)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "--target", str(place), "--no-deps", wanted, "py4j"], check=True)
    return place


def run(wanted: str) -> int:
    place = install(wanted)
    (version,) = (
        found.version for found in metadata.distributions(name="pyspark", path=[str(place)])
    )
    print(f"pyspark {version}", flush=True)
    environment = os.environ | {"PYTHONPATH": str(place), CONNECTOR_VARIABLE: NO_CONNECTOR}
    command = [sys.executable, "-m", "pytest", "-q", *TESTS]
    return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    return max([run(wanted) for wanted in sys.argv[1:] or WANTED])


if __name__ == "__main__":
    sys.exit(main())
