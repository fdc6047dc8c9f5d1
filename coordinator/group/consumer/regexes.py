"""Regular expressions of subscriptions: RE2's, as in Kafka, from the package google-re2.

RE2 takes time linear in the text whatever the expression, so a member cannot stop the coordinator
with one. The package is an extra (`pybroker-kafka[regex]`): its wheels are not for all platforms.
Without it no expression is valid, and the error says why.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

MAX_CACHED: Final = 256
_MAX_MEMORY_BYTES: Final = 8 << 20


class InvalidRegexError(Exception):
    """Not a regular expression of RE2; the text says why."""


@lru_cache(MAX_CACHED)
def compile_regex(regex: str) -> Callable[[str], Any]:
    """A function that says whether the whole of a name matches."""
    try:
        import re2
    except ImportError:
        raise InvalidRegexError(
            "this broker has none without the package google-re2 (pybroker-kafka[regex])"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        matches: Callable[[str], Any] = re2.compile(regex, options).fullmatch
    except re2.error as error:
        problem = error.args[0] if error.args else ""
        raise InvalidRegexError(
            problem.decode(errors="replace") if isinstance(problem, bytes) else str(problem)
        ) from None
    return matches
