"""The limits of a share group, by the broker's keys `group.share.*` and the group's own configs.

Mirrors ShareGroupConfig and ShareGroupConfigProvider; defaults are those of Kafka 4.3.
"""

from typing import NamedTuple


class ShareLimits(NamedTuple):
    # group.share.record.lock.duration.ms: how long a member may keep a record.
    record_lock_duration_ms: int = 30_000
    # group.share.delivery.count.limit: after so many deliveries a record is archived.
    delivery_count_limit: int = 5
    # group.share.partition.max.record.locks: the most records in flight.
    max_record_locks: int = 2_000
    # share.renew.acknowledge.enable: whether a member may begin its locks anew.
    renew_acknowledge_enable: bool = True
