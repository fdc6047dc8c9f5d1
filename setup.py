"""How pybroker is built: by setuptools, with the modules of `compiled.UNITS` compiled by mypyc.

- A wheel (`pip install .`) is compiled if the interpreter is CPython and a C compiler works.
  Without a working compiler, or if mypyc fails, the package is pure Python: an installation never
  fails for want of a compiler. `PYBROKER_COMPILED=0` skips compilation, `loops` compiles the loops
  over records alone. The build requires mypy only when it compiles something.
- An editable installation is not compiled. `make compiled` (`python setup.py compile`) compiles the
  checkout for the running interpreter.
- Both compile into `build/compiled/`, only units that have changed since they were last compiled;
  a wheel takes its modules from there.

`PYBROKER_COMPILE_LEVEL` lowers the C compiler's optimization: with 0, the code is compiled in half
the time, for tests. A unit that was compiled with less than it should have is compiled again.

Units are compiled side by side, each in a process of its own, and so are the C files of a unit, on
all cores. The build prints the compiled units and the time taken (`pip install -v .` shows it), and
`pybroker --version` names the units that run compiled.

pyproject.toml names this file as its build backend (PEP 517) for the first of these rules.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from multiprocessing import get_context
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
from setuptools.command.build_ext import build_ext
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
PACKAGE = "pybroker_kafka"
# A build backend cannot import a module beside it by name; and this is the package's list, not a
# library.
compiled = SimpleNamespace(**run_path(str(ROOT / "compiled.py")))
COMPILER = "mypy==2.4.1"
# Loops are inlined into each other, which takes one C file; one of very many takes twice as long.
MOST_IN_A_FILE = 20
# mypyc's declarations of a unit are a megabyte, which the C compiler reads once for each file.
FILES = 16
CORES = os.cpu_count() or 1
SUFFIX = EXTENSION_SUFFIXES[0]


def units_to_compile() -> tuple[Any, ...]:
    """The wanted units, or none where they cannot be compiled: then it prints the reason."""
    wanted: tuple[Any, ...] = compiled.wanted()
    trouble = _trouble() if wanted else "PYBROKER_COMPILED=0"
    if trouble:
        print(f"pybroker stays pure Python: {trouble}", flush=True)
        return ()
    return wanted


def level_of(unit: Any) -> str:
    """The C compiler's optimization of a unit that is compiled now."""
    return min(unit.level, os.environ.get("PYBROKER_COMPILE_LEVEL", unit.level))


def _trouble() -> str:
    """The reason why nothing can be compiled here; empty if there is none."""
    if sys.implementation.name != "cpython":
        return f"mypyc compiles for CPython, not for {sys.implementation.name}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "trial.c")
        source.write_text("#include <Python.h>\n")
        try:
            _compiler().compile([str(source)], output_dir=folder)
        except Exception as error:  # compilers have many ways to fail
            return f"no C compiler works here (gcc, and the headers of Python): {error}"
    return ""


def _compiler() -> Any:
    """A C compiler, set up as setuptools does for an extension."""
    command: Any = Distribution({"ext_modules": []}).get_command_obj("build_ext")
    command.ensure_finalized()
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    compiler.set_include_dirs(command.include_dirs)
    return compiler


def compile_units(units: Sequence[Any], into: Path) -> list[Any]:
    """Compile units, each into a folder of `into` with its library's name; returns those that
    succeeded."""
    if not units:
        return []
    began, cpu_before = time.monotonic(), _cpu_seconds()
    fork = get_context("fork")
    processes = [fork.Process(target=_compile, args=(unit, into / unit.library)) for unit in units]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    made = []
    for unit, process in zip(units, processes, strict=True):
        if process.exitcode == 0:
            made.append(unit)
        how = f"{len(unit.modules)} modules compiled" if unit in made else "stays pure Python"
        print(f"pybroker: {unit.name}: {how}")
    seconds, cpu_seconds = time.monotonic() - began, _cpu_seconds() - cpu_before
    print(f"pybroker: compiling took {seconds:.0f} s, of CPU {cpu_seconds:.0f} s", flush=True)
    return made


def _cpu_seconds() -> float:
    """CPU seconds of child processes that have ended."""
    found = os.times()
    return found.children_user + found.children_system


def _compile(unit: Any, into: Path) -> None:
    """Compile one unit; in a process of its own, whose exit status reports success."""
    try:
        with tempfile.TemporaryDirectory() as temporary:
            _compile_in(Path(temporary), unit)
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(Path(temporary, "built"), into)
    except (Exception, SystemExit) as error:  # mypyc and compilers have many ways to fail
        print(f"pybroker: {unit.name}: not compiled: {error}", flush=True)
        os._exit(1)


def _compile_in(temporary: Path, unit: Any) -> None:
    """Compile a unit into `built` in `temporary`."""
    stage, target = temporary / "stage", temporary / "c"
    _stage(stage, unit)
    configuration = temporary / "mypy.ini"
    configuration.write_text("[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n")
    os.chdir(stage)  # mypyc takes the place where packages begin from nowhere else
    from mypyc.build import mypycify

    extensions = mypycify(
        [
            "--explicit-package-bases",
            "--no-site-packages",  # as if nothing but mypy is installed
            "--cache-dir=/dev/null",
            f"--config-file={configuration}",
            *(str(Path(PACKAGE, path)) for path in _paths(unit)),
        ],
        opt_level=level_of(unit),
        debug_level="0",
        group_name=f"{PACKAGE}.{unit.library}",
        multi_file=len(unit.modules) > MOST_IN_A_FILE,
        target_dir=str(target),
    )
    for extension in extensions:
        # The headers of a group whose name has a dot are there.
        extension.include_dirs += [str(target / PACKAGE), str(target)]
        extension.sources = _joined(extension.sources, target)
    command: Any = SideBySide(Distribution({"ext_modules": extensions}))
    command.build_lib = str(temporary / "built")
    command.build_temp = str(temporary / "objects")
    command.parallel = CORES
    command.ensure_finalized()
    command.run()


def _joined(sources: Sequence[str], target: Path) -> list[str]:
    """The C files of modules joined to `FILES` files of about one size; the others as they are."""
    modules = [name for name in sources if Path(name).name.startswith("__native_")]
    files: list[list[str]] = [[] for _ in range(FILES)]
    sizes = [0] * FILES
    for name in sorted(modules, key=os.path.getsize, reverse=True):
        least = sizes.index(min(sizes))
        files[least].append(name)
        sizes[least] += os.path.getsize(name)
    joined = []
    for number, names in enumerate(filter(None, files)):
        path = target / f"joined_{number}.c"
        path.write_text("".join(f'#include "{Path(name).absolute()}"\n' for name in names))
        joined.append(str(path))
    return [name for name in sources if name not in modules] + joined


def _paths(unit: Any) -> list[Path]:
    return [Path(*name.split(".")).with_suffix(".py") for name in unit.modules]


def _stage(stage: Path, unit: Any) -> None:
    """The modules as mypyc sees them: with the modules of ours that they import, and no others."""
    seen: set[Path] = set()
    left = {*_paths(unit)}
    while left:
        seen |= left
        left = {Path(name) for name in _imported_by(left)} - seen
    for path in seen:
        target = stage / PACKAGE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    for folder in {folder for path in seen for folder in path.parents}:
        (stage / PACKAGE / folder / "__init__.py").touch()  # the root's own imports everything


class SideBySide(build_ext):
    """Runs the C compiler on the files of an extension side by side, the longest first."""

    def build_extensions(self) -> None:
        one_after_another = self.compiler.compile

        def compile_all(sources: Sequence[str], **options: Any) -> list[str]:
            by_size = sorted(sources, key=os.path.getsize, reverse=True)
            made = pool.map(lambda source: one_after_another([source], **options), by_size)
            return [name for names in made for name in names]

        with ThreadPoolExecutor(CORES) as pool:
            self.compiler.compile = compile_all
            super().build_extensions()


def _imported_by(paths: Iterable[Path]) -> set[str]:
    """The modules of ours that these import from: their constants are compiled in."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            room = ROOT.joinpath(path).parents[node.level - 1]
            place = room.joinpath(*(node.module or "").split("."))
            names = [place.with_suffix(".py"), place / "__init__.py"]
            names += [place / f"{one.name}.py" for one in node.names]
            found |= {name for name in names if name.is_file() and name != ROOT / "__init__.py"}
    return {path.relative_to(ROOT).as_posix() for path in found}


def _sources(unit: Any) -> list[str]:
    """The files whose digest decides whether compiled modules still match the checkout."""
    paths = _paths(unit)
    # The list is included: a module that leaves it is still imported by those that stay.
    return sorted({"compiled.py", *(path.as_posix() for path in paths), *_imported_by(paths)})


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    asked = build_meta.get_requires_for_build_wheel(config_settings)
    return [*asked, COMPILER] if units_to_compile() else asked


build_wheel = build_meta.build_wheel


def compile_changed(units: Sequence[Any], root: Path) -> list[Path]:
    """Compile those units whose folder below `root` does not match the sources; returns the folders
    of those that are compiled now."""
    digests = {unit: compiled.digest(str(ROOT), _sources(unit)) for unit in units}
    folders = {unit: Path(root, compiled.folder_of(unit)) for unit in units}
    changed = [
        unit
        for unit in units
        if _digest_in(folders[unit]) != digests[unit] or _level_in(folders[unit]) < level_of(unit)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        for unit in compile_units(changed, Path(temporary)):
            _put(Path(temporary, unit.library), folders[unit])
            (folders[unit] / "level").write_text(level_of(unit))
            # Last: without the digest the folder is not used.
            recorded = "\n".join((digests[unit], *_sources(unit)))
            (folders[unit] / "digest").write_text(recorded)
    return [folders[unit] for unit in units if _digest_in(folders[unit]) == digests[unit]]


def _put(built: Path, folder: Path) -> None:
    """Copy the modules beside each other, under their names in the package."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in built.rglob(f"*{SUFFIX}"):
        name = ".".join(path.relative_to(built).parts)
        shutil.copy(path, folder / name.removeprefix(f"{PACKAGE}."))


def _put_beside_sources(folder: Path, package: Path) -> None:
    """Copy the modules of a compiled unit to their places in the package."""
    for path in folder.glob(f"*{SUFFIX}"):
        *rooms, name = path.name.removesuffix(SUFFIX).split(".")
        shutil.copy(path, package.joinpath(*rooms, name + SUFFIX))


def _digest_in(folder: Path) -> str:
    recorded = folder / "digest"
    return recorded.read_text().partition("\n")[0] if recorded.exists() else ""


def _level_in(folder: Path) -> str:
    recorded = folder / "level"
    return recorded.read_text() if recorded.exists() else ""


class Compile(Command):
    """Compiles the units of a checkout that have changed."""

    description = "compile the units of compiled.py in this checkout, as far as they have changed"
    user_options = [
        ("units=", None, "libraries of compiled.py instead of all"),
        ("into=", None, "another root than the checkout's"),
    ]

    def initialize_options(self) -> None:
        self.units = ",".join(unit.library for unit in compiled.UNITS)
        self.into: str | Path = ROOT

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        asked = self.units.split(",")
        units = [unit for unit in units_to_compile() if unit.library in asked]
        compile_changed(units, Path(self.into))


def readme() -> str:
    """README.md for an index: links into the repository, and its pictures, as whole addresses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    address = project["urls"]["Repository"]

    def whole(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({address}/{kind}/main/{link['path']})"

    relative = r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<path>(?!https?://|#)[^)]+)\)"
    return re.sub(relative, whole, (ROOT / "README.md").read_text())


def main() -> None:
    units = units_to_compile() if "bdist_wheel" in sys.argv else ()
    made = compile_changed(units, ROOT)

    class BuildPy(build_py):
        def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
            found = super().find_package_modules(package, package_dir)
            return [module for module in found if module[1] != "setup"]  # beside __init__.py

        def run(self) -> None:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build's modules
            super().run()
            for folder in made:
                _put_beside_sources(folder, Path(self.build_lib, PACKAGE))

    class Package(Distribution):
        def has_ext_modules(self) -> bool:  # then the wheel is for one interpreter
            return bool(made)

    setup(
        cmdclass={"build_py": BuildPy, "compile": Compile},
        distclass=Package,
        long_description=readme(),
        long_description_content_type="text/markdown",
    )


if __name__ == "__main__":
    main()
