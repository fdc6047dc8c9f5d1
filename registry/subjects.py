"""Names of subjects: `orders-value`, and `:.eu:orders-value` in a context of its own.

Ids are counted for each context; the default context is `.`, and its subjects are written plainly.
Configs and modes are kept under None (all of the default context), `:.eu:` (all of a context) or a
subject. Mirrors: QualifiedSubject.
"""

from __future__ import annotations

from typing import Final

DEFAULT_CONTEXT: Final = "."
ANY_CONTEXT: Final = ":*:"
GLOBAL: Final = "__GLOBAL"
EMPTY: Final = "__EMPTY"


def split(subject: str) -> tuple[str, str]:
    """The context and the plain name."""
    if subject.startswith(":."):
        context, separator, name = subject[1:].partition(":")
        if separator:
            return context, name
        return context, ""
    return DEFAULT_CONTEXT, subject


def qualified(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def normalized(subject: str) -> str:
    return qualified(*split(subject))


def context_of(subject: str | None) -> str:
    return DEFAULT_CONTEXT if subject is None else split(subject)[0]


def beside(subject: str, name: str) -> str:
    """A subject that a schema of `subject` refers to by `name`: in the same context, unless it
    names one."""
    return normalized(name) if name.startswith(":.") else qualified(context_of(subject), name)


def within(context: str, subject: str) -> str:
    """A subject of a request to /contexts/`context`/..."""
    return normalized(subject) if subject.startswith(":.") else qualified(context, subject)


def is_valid(subject: str) -> bool:
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in subject):
        return False
    return split(subject)[1] not in (GLOBAL, EMPTY, "")
