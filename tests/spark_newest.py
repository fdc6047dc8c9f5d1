"""Spark's sources with the newest pyspark that pip finds: `make spark-newest`.

It is kept in the cache, beside the environment that tests run in, and shadows the pyspark of that.
The newest Spark's connector may not be in Maven Central, so ours is read alone.
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
WANTED: Final = "pyspark>=4.2"  # the first to tell a source in Python how much it may read
TESTS: Final = ("tests/compat/test_spark_sources.py", "tests/compat/test_spark_limits.py")


def install() -> Path:
    """Where it is."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    place = cache / "pyspark-newest"
    if not any(place.glob("pyspark-*.dist-info")):
        print(f"installing {WANTED} into {place} (430 MB) ...", flush=True)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "--target", str(place), "--no-deps", WANTED, "py4j"], check=True)
    return place


def main() -> int:
    place = install()
    (version,) = (
        found.version for found in metadata.distributions(name="pyspark", path=[str(place)])
    )
    print(f"pyspark {version}", flush=True)
    environment = os.environ | {"PYTHONPATH": str(place), CONNECTOR_VARIABLE: NO_CONNECTOR}
    command = [sys.executable, "-m", "pytest", "-q", *TESTS, *sys.argv[1:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
