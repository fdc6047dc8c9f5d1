"""All requests, in the order in which both brokers are asked.

Each is sent in every version that a broker serves, unless it says otherwise. What a request
changes, the next ones see.
Invariants: one broker with the id 1 and two log directories; no request depends on time.
"""

from __future__ import annotations

from tests.support.admin_requests.clients import ACLS, QUOTAS, SCRAM, TOKENS
from tests.support.admin_requests.configs import ALTER_CONFIGS, DESCRIBE_CONFIGS
from tests.support.admin_requests.placement import ELECT_LEADERS, LOG_DIRS, REASSIGNMENTS
from tests.support.admin_requests.records import OTHERS
from tests.support.admin_requests.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS

CASES = [
    *CREATE_TOPICS,
    *CREATE_PARTITIONS,
    *ALTER_CONFIGS,
    *DESCRIBE_CONFIGS,
    *ELECT_LEADERS,
    *REASSIGNMENTS,
    *LOG_DIRS,
    *QUOTAS,
    *SCRAM,
    *ACLS,
    *OTHERS,
    *TOKENS,
    *DELETE_TOPICS,
]
