"""Windows of client and replication quotas."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_0,
    AT_LEAST_1,
    CLASS,
    CLUSTER_WIDE,
    INT,
    LONG,
    LOW,
    MEDIUM,
    key,
)

DEFINITIONS = (
    key(
        "quota.window.num",
        INT,
        "11",
        LOW,
        valid=AT_LEAST_1,
        doc="The samples over which clients with quotas are measured.",
    ),
    key(
        "replication.quota.window.num",
        INT,
        "11",
        LOW,
        valid=AT_LEAST_1,
        doc="The samples over which throttled replication is measured.",
    ),
    key(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        "11",
        LOW,
        valid=AT_LEAST_1,
        doc="The samples over which copies between log directories are measured.",
    ),
    key(
        "controller.quota.window.num",
        INT,
        "11",
        LOW,
        valid=AT_LEAST_1,
        doc="The number of windows whose unused changes of topics a client with a quota may save "
        "up.",
    ),
    key(
        "quota.window.size.seconds",
        INT,
        "1",
        LOW,
        valid=AT_LEAST_1,
        doc="The length of one sample of a client with quotas.",
    ),
    key(
        "replication.quota.window.size.seconds",
        INT,
        "1",
        LOW,
        valid=AT_LEAST_1,
        doc="The length of one sample of throttled replication.",
    ),
    key(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        "1",
        LOW,
        valid=AT_LEAST_1,
        doc="The length of one sample of copies between log directories.",
    ),
    key(
        "controller.quota.window.size.seconds",
        INT,
        "1",
        LOW,
        valid=AT_LEAST_1,
        doc="The length of one window of the quota for changes of topics.",
    ),
    key("client.quota.callback.class", CLASS, None, LOW),
)

# Known only as dynamic configs, never in server.properties.
DYNAMIC_ONLY = (
    key(
        "leader.replication.throttled.rate",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
    ),
    key(
        "follower.replication.throttled.rate",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
    ),
    key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
    ),
)
