"""Import circles between the modules of pybroker: there are none.

An import under `if TYPE_CHECKING` or inside of a function counts as every other: it hides a circle
from the interpreter, and not from whoever reads the modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.imports import imports_in
from tests.support.processes import ROOT

OUTSIDE = ("tests", "benchmarks", "build", "dist", "docker")


def modules(root: Path) -> dict[str, Path]:
    """Every module below `root`, by its name without the package's."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] in OUTSIDE or parts[0].startswith("."):
            continue
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that one names in any of its imports, which are all relative (`test_layout`)."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in imports_in(path):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1]
        if node.module:
            base = [*base, *node.module.split(".")]
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            yield whole if whole in known else ".".join(base)


def graph(root: Path) -> dict[str, set[str]]:
    known = modules(root)
    return {
        name: {other for other in imported(name, path, known) if other in known}
        for name, path in known.items()
    }


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node: each reaches all the others."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        to_visit = list(edges[start])
        while to_visit:
            name = to_visit.pop()
            if name not in seen:
                seen.add(name)
                to_visit.extend(edges[name])
        reached[start] = seen
    left = {name for name in edges if name in reached[name]}
    found = []
    while left:
        name = min(left)
        circle = {other for other in reached[name] if name in reached[other]}
        found.append(circle)
        left -= circle
    return found


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": {"e"}}
    assert circles(edges) == [{"b", "c"}, {"e"}]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_hidden_imports_count(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "one.py").write_text("if TYPE_CHECKING:\n    from .two import Two\n")
    (room / "two.py").write_text("def use():\n    from . import one\n")
    assert circles(graph(tmp_path)) == [{"room.one", "room.two"}]


def test_no_circles() -> None:
    edges = graph(ROOT)
    found = circles(edges)
    through = [
        f"{name} -> {other}"
        for circle in found
        for name in sorted(circle)
        for other in sorted(edges[name] & circle)
    ]
    assert not found, f"through {through}"
