"""Since when Apache Kafka serves what, for whoever meets an older broker.

The first release of each API that clients use, and of what was added to one later.
Leaves out: what Kafka 0.10.0 serves already, the oldest that we speak to.
"""

from __future__ import annotations

from typing import Final

from ..protocol.api import API_TABLE, ApiKey
from .errors import Unsupported

TRANSACTIONS_SINCE: Final = "0.11"
ZSTD_SINCE: Final = "2.1"
HEADERS_SINCE: Final = "0.11"

_SINCE: Final = {
    ApiKey.CREATE_TOPICS: "0.10.1",
    ApiKey.DELETE_TOPICS: "0.10.1",
    ApiKey.DELETE_RECORDS: "0.11",
    ApiKey.INIT_PRODUCER_ID: "0.11",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "0.11",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0.11",
    ApiKey.ADD_OFFSETS_TO_TXN: "0.11",
    ApiKey.END_TXN: "0.11",
    ApiKey.WRITE_TXN_MARKERS: "0.11",
    ApiKey.TXN_OFFSET_COMMIT: "0.11",
    ApiKey.DESCRIBE_ACLS: "0.11",
    ApiKey.CREATE_ACLS: "0.11",
    ApiKey.DELETE_ACLS: "0.11",
    ApiKey.DESCRIBE_CONFIGS: "0.11",
    ApiKey.ALTER_CONFIGS: "0.11",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1.0",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0",
    ApiKey.SASL_AUTHENTICATE: "1.0",
    ApiKey.CREATE_PARTITIONS: "1.0",
    ApiKey.CREATE_DELEGATION_TOKEN: "1.1",
    ApiKey.RENEW_DELEGATION_TOKEN: "1.1",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1.1",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1.1",
    ApiKey.DELETE_GROUPS: "1.1",
    ApiKey.ELECT_LEADERS: "2.2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.OFFSET_DELETE: "2.4",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.UPDATE_FEATURES: "2.7",
    ApiKey.DESCRIBE_CLUSTER: "2.8",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0",
}


def not_served(address: str, key: ApiKey) -> Unsupported:
    """Of an API that a broker does not serve, or in no version that we know."""
    since = _SINCE.get(key)
    hint = f", which Kafka does since {since}" if since else " in a version that we know"
    return Unsupported(f"broker {address} does not serve {API_TABLE[key].name}{hint}")


def too_old(what: str, since: str) -> Unsupported:
    """Of something that came later to an API that the brokers serve."""
    return Unsupported(f"the brokers are too old for {what}, which Kafka has since {since}")
