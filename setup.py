"""How pybroker is built: by setuptools, with the loops over records compiled where it is possible.

What compiles: mypyc, over the same `.py` files, if the interpreter is CPython and a C compiler is
on PATH. Where it cannot or fails, the package is pure Python, and says so in its `--version`: an
installation never fails for want of a compiler. `PYBROKER_COMPILED=0` leaves it out.

- A wheel (`pip install .`, `make wheels`) is compiled. mypy is asked for then, and only then.
- An editable installation is not, and takes no longer than ever. `python setup.py compile_loops`
  (`make compiled`) compiles the checkout for the interpreter that runs it; each edit of the loops
  makes that void, see `protocol/records/loops/__init__.py`.

pyproject.toml names this file as its build backend (PEP 517) for the first of these rules.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import source_hash
from pathlib import Path
from typing import Any

from setuptools import Command, Distribution, build_meta, setup
from setuptools.build_meta import (  # what a backend has to offer
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.build_py import build_py

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent
LOOPS = Path("protocol", "records", "loops")
COMPILER = "mypy==2.4.1"
LIBRARY = "pybroker_record_loops"
# What the loops import of us, and so what mypyc has to see.
BESIDE = (Path("protocol", "errors.py"), Path("protocol", "records", "vecs.py"))


def can_compile() -> bool:
    """Whether it is worth a try."""
    return (
        os.environ.get("PYBROKER_COMPILED") != "0"
        and sys.implementation.name == "cpython"
        and any(map(shutil.which, (os.environ.get("CC", "cc").split()[0], "gcc", "clang")))
    )


def compile_loops(into: Path) -> bool:
    """Compile the loops to a folder of `into` that has this interpreter's name; False if not."""
    if not can_compile():
        print("record loops: no C compiler, they stay pure Python")
        return False
    try:
        with tempfile.TemporaryDirectory() as temporary:
            _compile(Path(temporary), into)
    except (Exception, SystemExit) as error:  # mypyc and compilers have many ways to fail
        print(f"record loops: not compiled, they stay pure Python: {error}")
        return False
    print("record loops: compiled")
    return True


def _compile(temporary: Path, into: Path) -> None:
    # Alone with what they import: mypy reads the rest of the package for half a minute.
    stage = temporary / "stage"
    sources = sorted(path for path in (ROOT / LOOPS).glob("*.py") if path.name != "__init__.py")
    for path in (*sources, *(ROOT / name for name in BESIDE)):
        target = stage / "pybroker" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for folder in ("", "protocol", "protocol/records", str(LOOPS)):
        (stage / "pybroker" / folder / "__init__.py").touch()
    old = Path.cwd()
    os.chdir(stage)  # mypyc has no other way to be told where packages begin
    try:
        from mypyc.build import mypycify

        extensions = mypycify(
            [
                "--explicit-package-bases",
                "--config-file=",
                *(str(Path("pybroker", path.relative_to(ROOT))) for path in sources),
            ],
            opt_level="3",
            debug_level="0",
            group_name=LIBRARY,
            target_dir=str(temporary / "c"),
        )
        command: Any = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib = str(temporary / "built")
        command.build_temp = str(temporary / "objects")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(old)
    suffix = EXTENSION_SUFFIXES[0]
    folder = into / suffix.strip(".").removesuffix(".so")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for built in (temporary / "built").rglob(f"*{suffix}"):
        shutil.copy(built, folder)
    # Last: without it nothing of this counts.
    digest = source_hash(b"\0".join(path.read_bytes() for path in sources))
    (folder / "digest").write_text(digest.hex())


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    return [*wanted, COMPILER] if can_compile() else wanted


build_wheel = build_meta.build_wheel


class CompileLoops(Command):
    """In place, for a checkout."""

    description = "compile the loops over records in this checkout"
    user_options = [("into=", None, "another folder than theirs")]

    def initialize_options(self) -> None:
        self.into: str | Path = ROOT / LOOPS / "compiled"

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        compile_loops(Path(self.into))


def main() -> None:
    temporary = tempfile.TemporaryDirectory()
    compiled = Path(temporary.name)
    is_compiled = "bdist_wheel" in sys.argv and compile_loops(compiled)

    class BuildPy(build_py):
        def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
            found = super().find_package_modules(package, package_dir)
            return [module for module in found if module[1] != "setup"]  # beside __init__.py

        def run(self) -> None:
            super().run()
            target = Path(self.build_lib, "pybroker", LOOPS, "compiled")
            shutil.rmtree(target, ignore_errors=True)
            if is_compiled:
                shutil.copytree(compiled, target)

    class Package(Distribution):
        def has_ext_modules(self) -> bool:  # the wheel is one interpreter's, then
            return is_compiled

    with temporary:
        setup(cmdclass={"build_py": BuildPy, "compile_loops": CompileLoops}, distclass=Package)


if __name__ == "__main__":
    main()
