"""The regular expressions of clients: RE2, which takes time proportional to the text.

Job: `RegularExpression`, compiled from a text that a client sent; `compiled` remembers the last
ones. An expression matches a text as a whole. The package google-re2 is an extra (`regex`): it
has no wheels for some platforms; without it no expression is valid, and the error says so.

Mirrors: com.google.re2j.Pattern, which Kafka uses for the same reason: an expression of a client
must not stop a broker.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from .errors import ErrorCode, KafkaError

MAX_REMEMBERED: Final = 256
_MAX_MEMORY_BYTES: Final = 8 << 20
_MISSING: Final = "this broker has none without the package google-re2 (pybroker-kafka[regex])"


class RegularExpression:
    __slots__ = ("_full_match", "text")

    def __init__(self, text: str) -> None:
        """KafkaError (INVALID_REGULAR_EXPRESSION) if it is none."""
        self.text = text
        try:
            import re2
        except ImportError:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, _MISSING) from None
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MAX_MEMORY_BYTES
        try:
            self._full_match: Any = re2.compile(text, options).fullmatch
        except re2.error as error:
            problem = error.args[0] if error.args else error
            if isinstance(problem, bytes):
                problem = problem.decode("utf-8", "replace")
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(problem)) from error

    def matches(self, text: str) -> bool:
        return self._full_match(text) is not None


@lru_cache(MAX_REMEMBERED)
def compiled(text: str) -> RegularExpression:
    """KafkaError (INVALID_REGULAR_EXPRESSION) if it is none."""
    return RegularExpression(text)
