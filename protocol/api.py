"""The APIs that 3.9 serves in ZooKeeper mode: their versions, and the page of each.

Job: `API_TABLE` has the versions of all APIs, from a table that is written from the pages;
`page(key)` imports the page of an API on first use, so that a process pays only for the APIs it
uses. Mirrors: org.apache.kafka.common.protocol.ApiKeys, for the listener type zkBroker.
Leaves out: the APIs of KRaft (52-55, 59, 62-64, 70-75), telemetry and share groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from .generated.api_table import VERSIONS
from .generated.api_table import ApiKey as ApiKey

if TYPE_CHECKING:
    from .api_page import Api
    from .schema import Message


class ApiSpec(NamedTuple):
    """The versions of one API, and the first one in flexible form."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    first_flexible: int | None

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


API_TABLE: Final[Mapping[ApiKey, ApiSpec]] = MappingProxyType(
    {row[0]: ApiSpec(*row) for row in VERSIONS}
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
