"""Check the grammar and the spelling of docstrings, comments and pages.

Harper, a grammar checker that works offline, reads our prose with those of its rules that are in
`RULES`, and with rules of ours beside this file (`*.weir`, in Harper's own language, each with its
tests), which are for everything but our tests: they tell of persons. It knows British English, and
the words of `dictionary.txt`.

Harper reads a source's comments by itself, but takes names for words. So one page is written for
each folder: docstrings and comments, names as code, and the pages of the project; Harper leaves
code out. `python -m tests.words.check` prints each fault with its place, and fails if there is one.

Leaves out generated codecs, and the files that other programs wrote (`tests/golden/`).
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HARPER = Path(sys.executable).parent / "harper"
NOT_OURS = ("build", "dist", "protocol/generated", "tests/golden")

RULES = {
    "spelling": ["SpellCheck", "The", "WrongApostrophe"],
    "articles": [
        *["AnA", "AnAnother", "AnotherAn", "AnotherOnes", "AnotherThings", "SomeWithoutArticle"],
        *["TheAnother", "TheMy", "TheTheToThatThe", "ThatThis"],
    ],
    "words twice, or one too many": [
        *["AvoidAndAlso", "DoubleModal", "MoreBetter", "RedundantAcronyms", "RepeatedWords"],
        *["ToAdverb", "ToTo", "WholeEntire", "WithoutOut"],
    ],
    "number and person": [
        *["CriteriaPhenomena", "HeDos", "OneOfTheSingular", "PronounAre", "PronounVerbAgreement"],
        *["ThereIsAgreement", "ThisTypeOfThing"],
    ],
    "forms of verbs": [
        *["CanBeSeen", "DidPast", "HavePassed", "IsBeenAuxSequence"],
        *["ModalOf", "ModalSeem", "ProgressiveNeedsBe", "RegularIrregulars"],
        *["SimplePastToPastParticiple", "WantBe", "WillContain", "WillNonLemma"],
    ],
    "one word for another": [
        *["AllReady", "AtLeasToLeast", "Cant", "CeaseTo", "ExtendOrExtent", "ItsPossessive"],
        *["LessWorse", "NoLonger", "SaveToSafe", "TheirToThere", "ThereOwn"],
        *["ThoughThought", "TooTo", "WorseOrWorst"],
    ],
    "prepositions": [
        *["AllowTo", "ApartFrom", "AsOpposedTo", "AwareOf", "DespiteOf", "ExceptOf"],
        *["InsteadOf", "MoreThatLikely", "ResponsibleFor"],
    ],
    "commas, hyphens and quotes": [
        *["CaseSensitive", "ClientOrServerSide", "DiscourseMarkers", "UnclosedQuotes"],
    ],
}

STRING_OR_COMMENT = re.compile(
    r"""("{3}|'{3})(?:\\.|[^\\])*?\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*""", re.DOTALL
)
# Names of classes, functions, files, options and keys that stand in prose without backticks.
NAME = re.compile(
    r"```.*?```|`[^`]*`"
    r"|(?<![\w`])(?:"
    r"\d[\d.,]* (?:us|ns|ms|s|B)"  # a quantity
    r"|--?[a-z][\w-]*"  # an option
    r"|[/~.]*\w+(?:[./:=@#*-]*[/._:=@#]+[\w*-]+)+/?"  # a path, a key, an address
    r"|\w*(?:_|[a-z][A-Z]|[A-Z]{2}[a-z]|\d)[\w-]*"  # snake_case, CamelCase, v2
    r"|[A-Z]{2,}[A-Z\d]*s?"  # an acronym or a constant
    r"|Ctrl-[A-Z]"
    r"|[A-Za-z](?=\.(?:\s|$))"  # the letter of a case
    r"|(?:[a-z]+-)?kafka(?:-[a-z]+)*"  # a tool, a package, pytest's fixture
    r")(?:'s)?(?![\w`])",
    re.DOTALL,
)


class Piece(NamedTuple):
    """A docstring, a comment or a whole page."""

    path: Path
    line: int
    text: str


class Fault(NamedTuple):
    path: Path
    line: int
    rule: str
    words: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words!r}: {self.message}"


def files() -> list[Path]:
    """The sources and pages to check, relative to the root."""
    found = [path for kind in ("*.py", "*.md") for path in ROOT.rglob(kind)]
    ours = [path.relative_to(ROOT) for path in found]
    return sorted(
        path
        for path in ours
        if not any(part.startswith(".") for part in path.parts)
        and not str(path).startswith(NOT_OURS)
    )


def pieces(path: Path) -> Iterator[Piece]:
    source = (ROOT / path).read_text()
    if path.suffix == ".md":
        yield Piece(path, 1, source)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield Piece(path, node.body[0].lineno, text)
    yield from _comments(path, source)


def _comments(path: Path, source: str) -> Iterator[Piece]:
    """The comments; those that fill lines in a row are one."""
    begin, lines, place = 0, list[str](), 0
    line = 1
    for token in STRING_OR_COMMENT.finditer(source):
        text = token[0]
        line += source.count("\n", place, token.start())
        place = token.start()
        if text[0] != "#" or re.match(r"#(!|\s*(type:|noqa|fmt:))", text):
            continue
        is_alone = not source[source.rfind("\n", 0, place) + 1 : place].strip()
        if lines and not (is_alone and line == begin + len(lines)):
            yield Piece(path, begin, "\n".join(lines))
            lines.clear()
        if not lines:
            begin = line
        lines.append(text.lstrip("# "))
    if lines:
        yield Piece(path, begin, "\n".join(lines))


def with_names_as_code(text: str) -> str:
    text = text.replace("&lt;", "<").replace("\\_", "_")
    return NAME.sub(lambda name: name[0] if name[0][0] == "`" else f"`{name[0]}`", text)


def dictionary() -> list[str]:
    """Our words, each with its genitive; a line of the file that begins with # is a heading."""
    lines = (HERE / "dictionary.txt").read_text().splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    return [form for word in words for form in (word, word.removesuffix("'s") + "'s")]


def own_rules() -> list[str]:
    return sorted(rule.stem for rule in HERE.glob("*.weir"))


def weirpack(file: Path) -> None:
    """Write our own rules as Harper loads them."""
    about = dict.fromkeys(("author", "version", "description", "license"), "pybroker")
    with zipfile.ZipFile(file, "w") as pack:
        pack.writestr("manifest.json", json.dumps(about))
        for rule in sorted(HERE.glob("*.weir")):
            pack.write(rule, rule.name)


def check(found: list[Piece]) -> list[Fault]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weirpack(folder / "ours.weirpack")
        (folder / "dictionary.txt").write_text("\n".join(dictionary()))
        places = dict[str, list[tuple[Path, int]]]()
        pages = dict[str, list[str]]()
        for path, begin, text in found:
            page = path.parts[0] if len(path.parts) > 1 else "root"
            page = f"{page}-{path.suffix[1:]}.md"
            lines = with_names_as_code(text).split("\n")
            pages.setdefault(page, []).extend([*lines, ""])
            places.setdefault(page, []).extend((path, begin + i) for i in range(len(lines) + 1))
        for page, lines in pages.items():
            (folder / page).write_text("\n".join(lines))
        faults = [
            _fault(places[Path(report["file"]).name][fault["line"] - 1], fault)
            for report in _harper(folder, sorted(pages))
            for fault in report["lints"]
        ]
        own = own_rules()
        return [
            fault for fault in faults if not (fault.rule in own and fault.path.parts[0] == "tests")
        ]


def _fault(place: tuple[Path, int], said: dict[str, Any]) -> Fault:
    return Fault(*place, said["rule"], said["matched_text"], said["message"])


def _harper(folder: Path, pages: list[str]) -> list[dict[str, Any]]:
    command = [
        *[str(HARPER), "lint", "--format", "json", "--quiet", "--no-color", "--dialect", "uk"],
        *["--user-dict-path", str(folder / "dictionary.txt"), "--file-dict-path", str(folder)],
        *["--weirpacks", str(folder / "ours.weirpack")],
        *["--only", ",".join([*chain.from_iterable(RULES.values()), *own_rules()])],
        *[str(folder / page) for page in pages],
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise SystemExit(f"harper printed no report: {ended.stderr}")
    reports: list[dict[str, Any]] = json.loads(ended.stdout)
    return reports


def main() -> int:
    for rule in own_rules():
        # The tests in it.
        subprocess.run([str(HARPER), "test", str(HERE / f"{rule}.weir")], check=True)
    faults = check([piece for path in files() for piece in pieces(path)])
    for fault in sorted(faults):
        print(fault)
    print(f"{len(faults)} faults in words")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
