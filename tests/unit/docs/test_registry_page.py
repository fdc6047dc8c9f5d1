"""REGISTRY has a row for each endpoint, and no other."""

from __future__ import annotations

import re

from pybroker_kafka.registry.handlers import ENDPOINTS
from tests.support.processes import ROOT

_REQUEST = re.compile(r"`((?:GET|POST|PUT|DELETE) /[^`]*)`")


def test_the_table_of_endpoints_is_whole() -> None:
    page = (ROOT / "docs" / "REGISTRY.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    told = {found for line in rows for found in _REQUEST.findall(line.split(" | ")[0])}
    there = {f"{one.method} /{'/'.join(one.path)}" for one in ENDPOINTS}
    assert told - {"GET /v1/metadata/id", "GET /v1/metadata/version"} == there
