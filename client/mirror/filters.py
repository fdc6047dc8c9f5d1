"""Selects names by lists of names and regular expressions; pure.

A name is selected if one of `include` matches all of it, and none of `exclude` does. An empty list
matches nothing. Expressions are read as Python's: Java's possessive quantifiers, classes such as
`\\p{Alpha}` and intersections are not known there, and are refused.
Mirrors: DefaultTopicFilter, DefaultGroupFilter, DefaultConfigPropertyFilter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import SettingsError


class NameFilter:
    """Raises SettingsError for an invalid regular expression."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    def __call__(self, name: str) -> bool:
        return _matches(self._include, name) and not _matches(self._exclude, name)


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None


def _compiled(texts: Sequence[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    try:
        return re.compile("|".join(texts))
    except re.error as error:
        raise SettingsError(f"{','.join(texts)!r} is no regular expression: {error}") from None
