"""A compiled wheel for each Python that is here: `make wheels`.

Each is built by the Python that it is for, with what the build asks for (mypy), goes to dist/, and
is put into an environment of its own, in which all that `compiled.py` lists has to be compiled.
They run on machines like this one; for an index, cibuildwheel builds them against old C libraries
(pyproject.toml has its settings). Exit status 1 if one could not be built, or was not compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.pythons import ROOT, VERSIONS, find

DIST = ROOT / "dist"
# Of its dependencies, what the compiled loops import.
IMPORTED = ("librt>=0.16", "mypy-extensions>=1.0")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYBROKER_COMPILED"}
ASK = "from pybroker_kafka.compiled import UNITS, is_compiled; print(all(map(is_compiled, UNITS)))"


def build(python: Path, folder: Path) -> str:
    """Build and try the wheel of this Python; what is to say of it, or CalledProcessError."""
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    made = folder / "made"
    command = [*pip, "wheel", "--no-deps", "--wheel-dir", made, ROOT]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    (wheel,) = made.glob("*.whl")
    subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    own = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", own, "install", *IMPORTED], check=True)
    subprocess.run([*pip, "--python", own, "install", "--no-deps", wheel], check=True)
    told = subprocess.run(
        [own, "-c", ASK], stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT
    ).stdout
    if told.strip() != "True":
        return "NOT COMPILED"
    DIST.mkdir(exist_ok=True)
    wheel.replace(DIST / wheel.name)
    return wheel.name


def main() -> int:
    lines = []
    failed = False
    for version in VERSIONS:
        found = find(version)
        if found is None:
            lines.append(f"{version:8} not on this machine")
            continue
        python, full = found
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                told = build(python, Path(folder))
            except subprocess.CalledProcessError as error:
                told = f"FAILED: {error}"
        failed |= not told.endswith(".whl")
        lines.append(f"{full:8} {time.monotonic() - started:5.1f} s  {told}")
    print("\n=== wheels", *lines, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
