"""DescribeLogDirs: the replicas in each log directory, and their lags.

Mirrors ReplicaManager.describeLogDirs.
"""

from collections.abc import Collection, Generator

from ..protocol.apis.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ..protocol.errors import ErrorCode
from ..protocol.topics import TopicPartition
from .hosted_partitions import HostedPartitions
from .types import UNKNOWN_OFFSET


def describe_log_dirs(
    hosted: HostedPartitions, wanted: Collection[TopicPartition] | None
) -> Generator[None, None, list[DescribeLogDirsResult]]:
    """Every directory; of its partitions only the wanted ones (None: all). Others may have their
    turn at each step: there may be many partitions."""
    results = []
    log_manager = hosted.log_manager
    for directory in log_manager.describe():
        if directory.error:
            results.append(
                DescribeLogDirsResult(error_code=directory.error, log_dir=directory.path)
            )
            continue
        topics: dict[str, DescribeLogDirsTopic] = {}
        for name, partition, size, is_future in directory.logs:
            yield
            key = (name, partition)
            if wanted is not None and key not in wanted:
                continue
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = DescribeLogDirsTopic(name=name, partitions=[])
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=partition,
                    partition_size=size,
                    offset_lag=_lag(hosted, key, is_future),
                    is_future_key=is_future,
                )
            )
        try:
            total_bytes, usable_bytes = log_manager.files.disk_space(directory.path)
        except OSError:  # gone, which the next checkpoint will find
            code = ErrorCode.KAFKA_STORAGE_ERROR
            results.append(DescribeLogDirsResult(error_code=code, log_dir=directory.path))
            continue
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=list(topics.values()),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        )
    return results


def _lag(hosted: HostedPartitions, key: TopicPartition, is_future: bool) -> int:
    """The lag of a log end: of a replica behind its known HW (0 for a leader), of a future replica
    behind the log that it copies; -1 if that log is not here."""
    partition = hosted.partitions.get(key)
    if partition is None:
        return UNKNOWN_OFFSET
    log = partition.log
    if not is_future:
        return max(log.high_watermark - log.log_end_offset, 0)
    future = hosted.log_manager.future_log(*key)
    return UNKNOWN_OFFSET if future is None else log.log_end_offset - future.log_end_offset
