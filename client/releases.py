"""The first releases of Apache Kafka that serve an API or a feature, for messages about older
brokers.

The constants are for features added to an API later; the release of an API is on its page. Leaves
out: features of Kafka 0.10.0, the oldest that we support.
"""

from __future__ import annotations

from typing import Final

from ..protocol.api import API_TABLE, ApiKey, page
from .errors import Unsupported

TRANSACTIONS_SINCE: Final = "0.11"
ZSTD_SINCE: Final = "2.1"
HEADERS_SINCE: Final = "0.11"


def not_served(address: str, key: ApiKey) -> Unsupported:
    """The error for an API that a broker does not serve, or in no version that we support."""
    since = page(key).since
    hint = f", which Kafka does since {since}" if since else " in a version that we know"
    return Unsupported(f"broker {address} does not serve {API_TABLE[key].name}{hint}")


def too_old(what: str, since: str) -> Unsupported:
    """The error for a feature that was added to an API later."""
    return Unsupported(f"the brokers are too old for {what}, which Kafka has since {since}")
