"""A chapter of the course, read from its page; pure.

Job: the pages in `learn/chapters/` are the one source of the terminal, the console and the site.
HTML comments, which a reader of the page does not see, say how the course takes what follows:

    <!-- topics: NAME ... -->   deleted before the chapter begins, as are <!-- groups: NAME ... -->
    <!-- watch: PLACE -->       the console's page beside the text, from here on
    <!-- do -->                 the next block of code is run: sh or python
    <!-- break -->              the same; it breaks something
    <!-- background: NAME -->   the next block runs until the chapter ends; later blocks of sh have
                                its process id in $NAME
    <!-- ask: FACT WORD ... --> the next quote is a question, and a fact of the cluster its answer
    <!-- hint: TEXT -->         where the answer is found

Invariants: topics and groups have names with the course's own prefix, so that the course deletes
nothing else; a comment that is none of these, or stands before anything else than it needs, raises
BadChapter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

PREFIX: Final = "learn-"
LANGUAGES: Final = ("sh", "python")
_COMMENT: Final = re.compile(r"<!-- ([a-z]+)(?:: (.*))? -->")
_FENCE: Final = "```"


class BadChapter(Exception):
    """The page of a chapter is not understood; the text names the line."""


@dataclass(frozen=True, slots=True)
class Text:
    """Prose, as Markdown."""

    source: str
    watch: str


@dataclass(frozen=True, slots=True)
class Run:
    """A block of code to run. `background`: the name of a program that goes on, else empty."""

    language: str
    code: str
    does_break: bool
    background: str
    watch: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. `fact`: the name of a fact and its words; the cluster knows the answer."""

    fact: tuple[str, ...]
    source: str
    hint: str
    watch: str


Step: TypeAlias = Run | Ask
Part: TypeAlias = Text | Run | Ask


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter, in the order of its page. `name`: as in its file's name and in addresses."""

    number: int
    name: str
    title: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The parts at which a reader does something."""
        return tuple(part for part in self.parts if not isinstance(part, Text))

    def parts_of(self, step: int) -> tuple[Part, ...]:
        """The prose before a step and the step; for the number of all steps, what comes last."""
        found: list[Part] = []
        passed = 0
        for part in self.parts:
            if passed == step:
                found.append(part)
            passed += not isinstance(part, Text)
        return tuple(found)


def parse(number: int, name: str, page: str) -> Chapter:
    """Raises BadChapter."""
    return _Parser(number, name, page).chapter()


class _Parser:
    """The lines of a page, taken one after the other."""

    def __init__(self, number: int, name: str, page: str) -> None:
        self._number = number
        self._name = name
        self._lines = page.splitlines()
        self._at = 0
        self._marks: dict[str, str] = {}  # of the comments that wait for what they are about
        self._own: dict[str, tuple[str, ...]] = {"topics": (), "groups": ()}
        self._watch = ""
        self._prose: list[str] = []
        self._parts: list[Part] = []

    def chapter(self) -> Chapter:
        title = self._lines[0] if self._lines else ""
        if not title.startswith("# "):
            raise BadChapter(f"{self._name}: the first line is not its title")
        self._at = 1
        while self._at < len(self._lines):
            self._take(self._lines[self._at])
        self._end_prose()
        if self._marks:
            raise self._bad(f"nothing follows {', '.join(self._marks)}")
        return Chapter(
            self._number,
            self._name,
            title[2:],
            self._own["topics"],
            self._own["groups"],
            tuple(self._parts),
        )

    def _take(self, line: str) -> None:
        found = _COMMENT.fullmatch(line)
        if found is not None:
            self._at += 1
            self._mark(found[1], found[2] or "")
        elif line.startswith(_FENCE) and self._marks:
            self._code(line.removeprefix(_FENCE))
        elif line.startswith("> ") and self._marks:
            self._question()
        elif line and self._marks:
            raise self._bad(f"{', '.join(self._marks)}: neither a block nor a quote follows")
        else:
            self._prose += self._block() if line.startswith(_FENCE) else [line]
            self._at += 1

    def _mark(self, name: str, words: str) -> None:
        if name == "watch":
            self._end_prose()
            self._watch = words
        elif name in self._own:
            self._own[name] = tuple(words.split())
            if not all(one.startswith(PREFIX) for one in self._own[name]):
                raise self._bad(f"{name} of the course begin with {PREFIX}")
        elif name in ("do", "break", "background", "ask") or (
            name == "hint" and "ask" in self._marks
        ):
            self._end_prose()
            if self._marks and name != "hint":
                raise self._bad(f"{name} behind {', '.join(self._marks)}")
            self._marks[name] = words
        else:
            raise self._bad(f"{name} is no mark of the course")

    def _block(self) -> list[str]:
        """The lines of a block of code, its fences included; ends at the last one."""
        begin = self._at
        while True:
            self._at += 1
            if self._at >= len(self._lines):
                raise self._bad("a block of code does not end")
            if self._lines[self._at] == _FENCE:
                return self._lines[begin : self._at + 1]

    def _code(self, language: str) -> None:
        if language not in LANGUAGES or "ask" in self._marks:
            raise self._bad(f"a block to run is one of {', '.join(LANGUAGES)}")
        lines = self._block()
        self._at += 1
        background = self._marks.get("background", "")
        code = "\n".join(lines[1:-1]) + "\n"
        self._parts.append(Run(language, code, "break" in self._marks, background, self._watch))
        self._marks.clear()

    def _question(self) -> None:
        if "ask" not in self._marks:
            raise self._bad("a quote is a question, and needs a fact")
        lines = list(self._quoted())
        fact = tuple(self._marks["ask"].split())
        self._parts.append(Ask(fact, " ".join(lines), self._marks.get("hint", ""), self._watch))
        self._marks.clear()

    def _quoted(self) -> Iterator[str]:
        while self._at < len(self._lines) and self._lines[self._at].startswith(">"):
            yield self._lines[self._at].lstrip("> ")
            self._at += 1

    def _end_prose(self) -> None:
        source = "\n".join(self._prose).strip()
        self._prose.clear()
        if source:
            self._parts.append(Text(source, self._watch))

    def _bad(self, problem: str) -> BadChapter:
        return BadChapter(f"{self._name}, line {self._at + 1}: {problem}")
