"""The pages say what is there: each file, name and heading that they point at exists.

A word in backticks that looks like a path of ours must be one. A path may go on with `::Name` or
`::Name.attribute`, which must be defined in that file. Links must lead to a file, and to a heading
of it. Each page of docs/ is reached from the README. The rules that code cites ("SEMANTICS 4") are
those of docs/SEMANTICS.md.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.processes import ROOT

README = ROOT / "README.md"
PAGES = [
    *(README, ROOT / "examples" / "README.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "learn").rglob("*.md")),
]

ROOMS = (
    "broker", "cli", "client", "console", "coordinator", "learn", "local", "protocol",
    "replication", "spark_jobs", "storage", "testkit", "tls", "zookeeper",
)  # fmt: skip

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CITED = re.compile(r"SEMANTICS (\d+)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
# Folders whose names begin a path of ours; a path in quotes may be of a user's instead.
_OURS = (*ROOMS, "tests", "benchmarks", "docs", "docker", "examples",
)  # fmt: skip
_PATH = re.compile(rf"(?:{'|'.join(_OURS)})/[\w./-]*")
# Names of configs begin with zookeeper, too.
_MODULE = re.compile(
    rf"(?:{'|'.join(room for room in ROOMS if room != 'zookeeper')})(?:\.[a-z_]\w*)+"
)


def _title(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _text(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


@cache
def _names(path: Path) -> frozenset[str]:
    """What a module defines at its top, and `Class.attribute` of what its classes define."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        names = _defined(node)
        found.update(names)
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{name}" for inner in node.body for name in _defined(inner))
    return frozenset(found)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _missing(word: str) -> str | None:
    """What is wrong with a word in backticks, None if nothing is or it is no path of ours."""
    path, _, name = word.partition("::")
    if _PATH.fullmatch(path) is None:
        return None
    file = ROOT / path
    if not file.exists():
        return f"`{word}`: no such file"
    if name and name.partition("[")[0] not in _names(file):
        return f"`{word}`: no {name} in {path}"
    return None


def _anchors(page: Path) -> set[str]:
    """The headings as GitHub makes anchors of them."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(_text(page)))
    return {heading.replace(" ", "-") for heading in kept}


def _linked(page: Path) -> list[tuple[str, Path, str]]:
    links = (link for link in _LINK.findall(_text(page)) if "://" not in link)
    return [
        (link, (page.parent / link.partition("#")[0]).resolve(), link.partition("#")[2])
        if not link.startswith("#")
        else (link, page, link[1:])
        for link in links
    ]


@pytest.mark.parametrize("page", PAGES, ids=_title)
def test_what_a_page_names_exists(page: Path) -> None:
    wrong = [problem for word in _CODE.findall(_text(page)) if (problem := _missing(word))]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=_title)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = [
        link
        for link, file, anchor in _linked(page)
        if not file.exists() or (anchor and anchor not in _anchors(file))
    ]
    assert wrong == []


def test_each_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [
                file for _, file, _ in _linked(page) if file.suffix == ".md" and file.exists()
            ]
    assert sorted(set(PAGES) - reached) == []


def test_the_rules_that_code_cites_are_there_and_no_others() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    cited = {rule for file in files for rule in _CITED.findall(file.read_text())}
    rules = re.findall(r"^## (\d+)\. ", (ROOT / "docs" / "SEMANTICS.md").read_text(), re.MULTILINE)
    assert cited == set(rules)


def _said_in(file: Path) -> Iterator[str]:
    """Docstrings and comments."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _is_module(word: str) -> bool:
    """Of a word with dots that begins with a room: it goes through modules to a name in one."""
    place = ROOT
    for name in word.split("."):
        if not (place / name).is_dir():
            module = (place / name).with_suffix(".py")
            return module.exists() or name in (place / "__init__.py").read_text()
        place /= name
    return True


@pytest.mark.parametrize("room", ROOMS)
def test_what_code_names_exists(room: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}: {word}"
        for file in (ROOT / room).rglob("*.py")
        for said in _said_in(file)
        for word in _CODE.findall(said)
        if _missing(word) or (_MODULE.fullmatch(word) and not _is_module(word))
    ]
    assert wrong == []


def test_what_is_not_there_is_found() -> None:
    assert _missing("storage/log.py::Log.flush") is None
    assert _missing("nothing/of/ours.py") is None
    assert _missing("storage/gone.py") == "`storage/gone.py`: no such file"
    assert _missing("storage/log.py::Log.gone") is not None
    assert _is_module("broker.network.turns")
    assert not _is_module("broker.network.gone")
