"""Answers of the cluster, and whether a reader's text says the same; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

_INTEGER: Final = re.compile(r"(?<![\w.-])-?\d+(?!\w|[.-]\d)")
_GROUPS_OF_THREE: Final = re.compile(r"(?<=\d)[ ,_](?=\d{3}(?!\d))")  # 104,857,600
_NOISE: Final = re.compile(r"[\s\"'`.,;:!?()\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Number:
    """One whole number; other words around it do not count."""

    value: int

    @property
    def text(self) -> str:
        return str(self.value)

    def matches(self, given: str) -> bool:
        found = _integers(_GROUPS_OF_THREE.sub("", given))
        return len(found) == 1 and found[0] == self.value


@dataclass(frozen=True, slots=True)
class Numbers:
    """Some whole numbers, in any order."""

    values: frozenset[int]

    @property
    def text(self) -> str:
        return ", ".join(map(str, sorted(self.values))) or "none"

    def matches(self, given: str) -> bool:
        found = _integers(given)
        if not self.values:
            return not found and _NOISE.sub("", given).casefold() in ("none", "no")
        return len(found) == len(self.values) and frozenset(found) == self.values


@dataclass(frozen=True, slots=True)
class Word:
    """A name; case, quotes and blanks do not count."""

    value: str

    @property
    def text(self) -> str:
        return self.value

    def matches(self, given: str) -> bool:
        return _NOISE.sub("", given).casefold() == _NOISE.sub("", self.value).casefold()


Answer: TypeAlias = Number | Numbers | Word


def _integers(given: str) -> list[int]:
    return [int(one) for one in _INTEGER.findall(given)]
