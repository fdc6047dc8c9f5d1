"""The APIs that 3.9 serves in ZooKeeper mode, and those of Kafka 4: their versions and pages.

Job: `API_TABLE` has the versions of all APIs, from a table that is written from the pages;
`page(key)` imports the page of an API on first use, so that a process pays only for the APIs it
uses. A version that 3.9 does not have is `later`: a broker serves it once its feature is finalized.
Mirrors: org.apache.kafka.common.protocol.ApiKeys, for the listener type zkBroker of 3.9 and broker
of 4.3. Leaves out: the APIs of KRaft (52-55, 59, 62-64, 70, 73, 80-82).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from .features import NOTHING_FINALIZED, Feature, Later, Levels, is_served
from .generated.api_table import VERSIONS
from .generated.api_table import ApiKey as ApiKey

if TYPE_CHECKING:
    from .api_page import Api
    from .schema import Message


class ApiSpec(NamedTuple):
    """The versions of one API, the first one in flexible form, and the first that 3.9 lacks."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    first_flexible: int | None
    later: Later | None

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible

    def highest(self, levels: Levels = NOTHING_FINALIZED) -> int:
        """The last version that a broker serves under these finalized levels; less than
        `min_version` if it serves none."""
        later = self.later
        if later is None or is_served(later, levels):
            return self.max_version
        return later.version - 1

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


def _spec(
    key: ApiKey, name: str, first: int, last: int, flexible: int | None,
    later: int | None, feature: str | None,
) -> ApiSpec:  # fmt: skip
    of = None if later is None else Later(later, None if feature is None else Feature(feature))
    return ApiSpec(key, name, first, last, flexible, of)


API_TABLE: Final[Mapping[ApiKey, ApiSpec]] = MappingProxyType(
    {row[0]: _spec(*row) for row in VERSIONS}
)

_pages: Final[dict[int, Api]] = {}


def page(key: int) -> Api:
    """All facts about an API; imports its messages."""
    try:
        return _pages[key]
    except KeyError:
        module = import_module(f".apis.{ApiKey(key).name.lower()}", __package__)
        found: Api = module.API
        return _pages.setdefault(key, found)


def pages() -> Iterator[tuple[ApiKey, Api]]:
    """The pages of all APIs, for tests and generated files."""
    for key in ApiKey:
        yield key, page(key)


def request_class(key: int) -> type[Message]:
    return page(key).request


def response_class(key: int) -> type[Message]:
    return page(key).response
