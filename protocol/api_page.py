"""The page of an API: one row with all facts about it besides its messages.

Job: `Api`, the row, and its parts. Each module in `apis/` has the messages of one API and one row,
`API`, which names only what differs from the usual. Everything derived from the rows is computed
where it is used: the table of versions (`generated/api_table.py`), error answers (`failures`), the
questions to the authorizer, requests in parts, the gate for metadata, quotas, releases,
docs/AUTHORIZATION. Invariants: a row knows nothing of handlers, connections or clients; names in it
are those of fields of its messages (a test).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .access_rules import AccessRules, AnyRequest
from .features import Later
from .schema import Field, Message, Struct, version_range

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Elements(NamedTuple):
    """Lists of the request and of the answer whose elements belong together.

    The names of the lists, from the outermost to the innermost. If the answer has fewer lists, each
    of its elements repeats the names in the outer elements of the request. An answer without lists
    has none.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    renamed: Mapping[str, str]  # fields that name an element, if the answer calls them differently
    are_independent: bool  # each may be done without the others, in parts of the request


def elements(asked: str, answered: str = "", **renamed: str) -> Elements:
    """Independent of each other, as in `elements("topics.partitions", "topics.partitions")`."""
    return Elements(_path(asked), _path(answered), renamed, True)


def elements_together(asked: str, answered: str = "", **renamed: str) -> Elements:
    """Elements that the handler needs all at once."""
    return Elements(_path(asked), _path(answered), renamed, False)


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


class Failure(NamedTuple):
    """The form of an answer whose request failed as a whole.

    Usually once, if the version has a place for that, and otherwise at each element.
    """

    is_repeated: bool = False  # at each element as well as once
    values: Mapping[str, Any] = NOTHING  # of fields that are not the default in such an answer
    # The answer when it is made so far, and the code; None: there is no answer.
    finish: Callable[[AnyRequest, Any, int], Any] | None = None


ONCE: Final = Failure()
AT_EACH_TOO: Final = Failure(is_repeated=True)


class TopicsById(NamedTuple):
    """A list of topics whose elements have an id instead of a name since some version."""

    topics: str
    since: int


class Handling(Enum):
    """How the handler in a broker works."""

    AT_ONCE = "a function: it answers before it returns, or something answers later"
    IN_TURNS = "a generator: its loop over elements goes on in turns with other work"
    WAITS = "a coroutine: it waits for something, in a task of its own"


class Api(NamedTuple):
    request: type[Message]
    response: type[Message]
    access: AccessRules
    elements: tuple[Elements, ...] = ()
    """The first one that a request uses counts: versions have their lists in different places."""
    failure: Failure = ONCE
    since: str = ""
    """The first release of Apache Kafka that serves it; "": 0.10.0 does, or no client asks it."""
    later: Later | None = None
    """The first version that Kafka 3.9 does not serve; None: it serves all."""
    handling: Handling = Handling.AT_ONCE
    topics_by_id: TopicsById | None = None
    """Topics that have names, by their ids, before elements are checked and handled."""
    is_exempt: bool = False
    """Asked among brokers alone: no quota counts."""
    needs_metadata: bool = False
    """Answered from the cluster's metadata: held back until there is some."""
    is_read_in_place: bool = False
    """Decoded in the connection's buffer, where offsets are assigned."""
    is_repeated: bool = False
    """Asked again and again, and read by its likeness to the one before."""
    makes_files: bool = False
    """Makes or removes the files of each partition: never small, however few bytes it has."""
    has_small_answers: bool = False
    """A small request has a small answer."""
    small_without: tuple[str, ...] = ()
    """It has one if these fields of the answer are empty."""
    has_distinct_elements: bool = False
    """The same name again and again is answered once, because one answer may be large."""

    def elements_in(self, version: int) -> list[Elements]:
        """The elements whose outermost lists this version has."""
        return [
            each
            for each in self.elements
            if has_field(self.request, each.asked[0], version)
            and (not each.answered or has_field(self.response, each.answered[0], version))
        ]


def has_field(cls: type[Struct], name: str, version: int) -> bool:
    """Whether this version has it on the wire."""
    field = field_of(cls, name)
    return field is not None and is_in(field.versions, version)


def field_of(cls: type[Struct], name: str) -> Field | None:
    for field in cls._fields:
        if field.name == name:
            return field
    return None


def is_in(versions: str | None, version: int) -> bool:
    if versions is None:
        return False
    low, high = version_range(versions)
    return low <= version <= high
