"""Since when Apache Kafka serves what, for whoever meets an older broker.

The first release of what was added to an API later; that of an API is on its page.
Leaves out: what Kafka 0.10.0 serves already, the oldest that we speak to.
"""

from __future__ import annotations

from typing import Final

from ..protocol.api import API_TABLE, ApiKey, page
from .errors import Unsupported

TRANSACTIONS_SINCE: Final = "0.11"
ZSTD_SINCE: Final = "2.1"
HEADERS_SINCE: Final = "0.11"


def not_served(address: str, key: ApiKey) -> Unsupported:
    """Of an API that a broker does not serve, or in no version that we know."""
    since = page(key).since
    hint = f", which Kafka does since {since}" if since else " in a version that we know"
    return Unsupported(f"broker {address} does not serve {API_TABLE[key].name}{hint}")


def too_old(what: str, since: str) -> Unsupported:
    """Of something that came later to an API that the brokers serve."""
    return Unsupported(f"the brokers are too old for {what}, which Kafka has since {since}")
