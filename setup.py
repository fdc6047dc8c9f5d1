"""How pybroker is built: by setuptools, with some modules compiled where it is possible.

What compiles: mypyc, over the same `.py` files, if the interpreter is CPython and a C compiler is
on PATH. Where it cannot or fails, the package is pure Python, and says so in its `--version`: an
installation never fails for want of a compiler. `PYBROKER_COMPILED=0` leaves it out.

- A wheel (`pip install .`) has compiled loops, which takes seconds. mypy is asked for then, and
  only then. `PYBROKER_COMPILED=all` (`make wheels`) compiles the way of a request too, which takes
  a minute: the modules that `compiled.REQUEST_PATH` lists.
- An editable installation is not compiled, and takes no longer than ever. `make compiled` (`python
  setup.py compile_loops compile_request_path`) compiles the checkout for the interpreter that runs
  it; edits make that void, see `protocol/records/loops/__init__.py` and `compiled.py`.

pyproject.toml names this file as its build backend (PEP 517) for the first of these rules.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import source_hash
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
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
# A backend finds nothing beside itself by its name; and this is the package's list, not a library.
compiled = SimpleNamespace(**run_path(str(ROOT / "compiled.py")))
LOOPS = Path("protocol", "records", "loops")
COMPILER = "mypy==2.4.1"
LIBRARY = "pybroker_record_loops"
# Loops are inlined into each other, which takes one C file; one of very many takes twice as long.
MOST_IN_A_FILE = 20
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
    return _tried("record loops", _compile_loops, into)


def compile_request_path(into: Path) -> bool:
    """The same with the modules of a request's way."""
    return _tried("request path", _compile_request_path, into)


def _tried(what: str, compile_them: Callable[[Path, Path], None], into: Path) -> bool:
    if not can_compile():
        print(f"{what}: no C compiler, stays pure Python")
        return False
    try:
        with tempfile.TemporaryDirectory() as temporary:
            compile_them(Path(temporary), into / compiled.folder_of_interpreter())
    except (Exception, SystemExit) as error:  # mypyc and compilers have many ways to fail
        print(f"{what}: not compiled, stays pure Python: {error}")
        return False
    print(f"{what}: compiled")
    return True


def _compile_loops(temporary: Path, folder: Path) -> None:
    # Alone with what they import: mypy reads the rest of the package for half a minute.
    stage = temporary / "stage"
    sources = sorted(path for path in (ROOT / LOOPS).glob("*.py") if path.name != "__init__.py")
    for path in (*sources, *(ROOT / name for name in BESIDE)):
        target = stage / "pybroker" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for package in ("", "protocol", "protocol/records", str(LOOPS)):
        (stage / "pybroker" / package / "__init__.py").touch()
    names = [path.relative_to(ROOT) for path in sources]
    _compile(temporary, stage, names, LIBRARY, "3")
    _put(temporary, folder, ".".join(("pybroker", *LOOPS.parts)))
    # Last: without it nothing of this counts.
    digest = source_hash(b"\0".join(path.read_bytes() for path in sources))
    (folder / "digest").write_text(digest.hex())


def _compile_request_path(temporary: Path, folder: Path) -> None:
    stage = temporary / "stage"
    stage.mkdir()
    (stage / "pybroker").symlink_to(ROOT)
    names = [Path(*name.split(".")).with_suffix(".py") for name in compiled.REQUEST_PATH]
    # With the list itself: a module that leaves it is still imported by those that stay.
    counted = sorted({"compiled.py", *(name.as_posix() for name in names), *_imported_by(names)})
    digest = compiled.digest(str(ROOT), counted)
    if (folder / "digest").exists() and (folder / "digest").read_text().startswith(digest):
        return
    _compile(temporary, stage, names, compiled.LIBRARY, "1")
    _put(temporary, folder, "pybroker")
    (folder / "digest").write_text("\n".join((digest, *counted)))


def _imported_by(names: Sequence[Path]) -> set[str]:
    """The modules of ours from which these import something: its constants are compiled in."""
    found = set()
    for name in names:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            room = ROOT.joinpath(name).parents[node.level - 1]
            place = room.joinpath(*(node.module or "").split("."))
            for path in (place.with_suffix(".py"), *(place / f"{n.name}.py" for n in node.names)):
                if path.is_file():
                    found.add(path.relative_to(ROOT).as_posix())
    return found


def _compile(temporary: Path, stage: Path, names: Sequence[Path], library: str, level: str) -> None:
    """Compile modules of the package that lies in `stage` to `built` in `temporary`."""
    configuration = temporary / "mypy.ini"
    configuration.write_text("[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n")
    old = Path.cwd()
    os.chdir(stage)  # mypyc has no other way to be told where packages begin
    try:
        from mypyc.build import mypycify

        extensions = mypycify(
            [
                "--explicit-package-bases",
                f"--config-file={configuration}",
                *(str(Path("pybroker", name)) for name in names),
            ],
            opt_level=level,
            debug_level="0",
            group_name=library,
            multi_file=len(names) > MOST_IN_A_FILE,
            target_dir=str(temporary / "c"),
        )
        command: Any = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib = str(temporary / "built")
        command.build_temp = str(temporary / "objects")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(old)


def _put(temporary: Path, folder: Path, package: str) -> None:
    """Where they are looked for, under their names in `package`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (temporary / "built").rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        name = ".".join(path.relative_to(temporary / "built").parts)
        shutil.copy(path, folder / name.removeprefix(f"{package}."))


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


class CompileRequestPath(CompileLoops):
    """The same with what takes a minute."""

    description = "compile the modules of a request's way in this checkout, if they have changed"

    def initialize_options(self) -> None:
        self.into = ROOT / compiled.FOLDER

    def run(self) -> None:
        compile_request_path(Path(self.into))


def main() -> None:
    temporary = tempfile.TemporaryDirectory()
    made = Path(temporary.name)
    is_wheel = "bdist_wheel" in sys.argv
    folders = {}
    if is_wheel and compile_loops(made / "loops"):
        folders[LOOPS / "compiled"] = made / "loops"
    is_whole = is_wheel and os.environ.get("PYBROKER_COMPILED") == "all"
    if is_whole and compile_request_path(made / "request_path"):
        folders[Path(compiled.FOLDER)] = made / "request_path"

    class BuildPy(build_py):
        def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
            found = super().find_package_modules(package, package_dir)
            return [module for module in found if module[1] != "setup"]  # beside __init__.py

        def run(self) -> None:
            super().run()
            for folder in (LOOPS / "compiled", Path(compiled.FOLDER)):
                target = Path(self.build_lib, "pybroker", folder)
                shutil.rmtree(target, ignore_errors=True)
                if folder in folders:
                    shutil.copytree(folders[folder], target)

    class Package(Distribution):
        def has_ext_modules(self) -> bool:  # the wheel is one interpreter's, then
            return bool(folders)

    commands = {
        "build_py": BuildPy,
        "compile_loops": CompileLoops,
        "compile_request_path": CompileRequestPath,
    }
    with temporary:
        setup(cmdclass=commands, distclass=Package)


if __name__ == "__main__":
    main()
