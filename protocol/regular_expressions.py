"""The regular expressions of clients: RE2, which takes time proportional to the text.

Job: `RegularExpression`, compiled from a text that a client sent. An expression matches a text as a
whole. Mirrors: com.google.re2j.Pattern, which Kafka uses for the same reason: an expression of a
client must not stop a broker. Imported on first use.
"""

from __future__ import annotations

from typing import Any, Final

import re2

from .errors import ErrorCode, KafkaError

_OPTIONS: Final[Any] = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class RegularExpression:
    __slots__ = ("_full_match", "text")

    def __init__(self, text: str) -> None:
        """KafkaError (INVALID_REGULAR_EXPRESSION) if it is none."""
        self.text = text
        try:
            self._full_match: Any = re2.compile(text, _OPTIONS).fullmatch
        except re2.error as error:
            problem = error.args[0] if error.args else error
            if isinstance(problem, bytes):
                problem = problem.decode("utf-8", "replace")
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(problem)) from error

    def matches(self, text: str) -> bool:
        return self._full_match(text) is not None
