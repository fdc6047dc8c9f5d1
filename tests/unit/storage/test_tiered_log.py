"""Logs with a remote tier: which segments go, which offsets stay, and what a restart knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.checkpoints import LOG_START_OFFSET_FILE
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import validate_topic_configs
from pybroker_kafka.storage.log_jobs import CHECKPOINTED
from pybroker_kafka.storage.retention import delete_old_segments, why_deleted
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, manager_of
from tests.unit.storage.tiered import SYSTEM, tiered_config, tiered_log

SIZE = len(batch_of(b"x" * 20))


def fill(log: Log, count: int, *, epoch: int = 0, timestamp: int = 1000) -> Log:
    for number in range(count):
        batch = batch_of(b"x" * 20, timestamp=timestamp + number)
        append_as_leader(log, batch, leader_epoch=epoch, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    log.leader_epochs.ask_for_sync()
    log.flush(0)
    return log


def starts(log: Log) -> tuple[int, int]:
    return log.log_start_offset, log.local_log_start_offset


def test_only_segments_in_the_tier_are_deleted(tmp_path: Path) -> None:
    """Segments [0, 2), [2, 4), [4, 6): all exceed the limit, and two are copied one by one."""
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE, local_retention_bytes=1), 6)
    assert delete_old_segments(log, 0) == 0
    log.update_highest_offset_in_remote_storage(0)  # in the middle of a segment
    assert delete_old_segments(log, 0) == 0
    log.update_highest_offset_in_remote_storage(1)
    [(segment, reason)] = why_deleted(log, 0)
    assert (segment.base_offset, "local.retention.bytes, 1" in reason) == (0, True)
    assert delete_old_segments(log, 0) == 1
    assert starts(log) == (0, 2)
    log.update_highest_offset_in_remote_storage(3)
    log.update_highest_offset_in_remote_storage(1)  # it never falls
    assert delete_old_segments(log, 0) == 1
    assert (starts(log), log.leader_epochs.entries) == ((0, 4), [(0, 0)])
    with pytest.raises(KafkaError) as caught:
        log.read(3, 100, upper_bound_offset=6)
    assert caught.value.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert log.read(4, 100, upper_bound_offset=6).records.size


def test_no_start_is_noted_before_the_first_epochs_are(tmp_path: Path) -> None:
    """One of -1 was, and the next start took no start of any log from the damaged file."""
    log = tiered_log(tmp_path, segment_bytes=2 * SIZE)
    append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
    log.leader_epochs.ask_for_sync()
    assert log.leader_epochs.needs_sync
    assert CHECKPOINTED[LOG_START_OFFSET_FILE](log) is None
    log.flush(0)
    assert CHECKPOINTED[LOG_START_OFFSET_FILE](log) == 0


def test_segments_go_once_the_epochs_are_on_disk(tmp_path: Path) -> None:
    """Else a log that is killed now would not know which epochs its records in the tier have."""
    log = tiered_log(tmp_path, segment_bytes=2 * SIZE, local_retention_bytes=1)
    for number in range(6):
        append_as_leader(log, batch_of(b"x" * 20), leader_epoch=number // 4, now_ms=0)
    log.update_high_watermark(6)
    log.update_highest_offset_in_remote_storage(5)
    assert delete_old_segments(log, 0) == 0
    assert log.flush_is_due(0)
    log.flush()
    assert delete_old_segments(log, 0) == 2
    log.release()
    killed = manager_of(tmp_path, config=log.config)
    again = killed.get_or_create_log("t", 0, log.topic_id, None, 0)
    assert again.leader_epochs.entries == [(0, 0), (1, 4)]
    assert again.local_log_start_offset == 4


def test_age_counts_by_the_local_limit(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE, local_retention_ms=100), 6)
    log.update_highest_offset_in_remote_storage(5)
    assert delete_old_segments(log, 1101) == 0
    assert delete_old_segments(log, 1102) == 1


def test_without_a_local_limit_that_of_both_tiers_counts(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE, retention_ms=100), 6)
    log.update_highest_offset_in_remote_storage(5)
    assert delete_old_segments(log, 1102) == 1
    assert starts(log) == (0, 2)


def test_the_active_segment_is_rolled_to_be_copied(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, local_retention_ms=100), 3)
    assert delete_old_segments(log, 1102) == 0  # the newest record is of 1002
    assert delete_old_segments(log, 1103) == 0
    assert log.segments.base_offsets == [0, 3]
    assert delete_old_segments(log, 1103) == 0  # nor is an empty one rolled again
    log.update_highest_offset_in_remote_storage(2)
    assert delete_old_segments(log, 1103) == 1
    assert starts(log) == (0, 3)


def test_no_active_segment_of_unreplicated_records_is_rolled(tmp_path: Path) -> None:
    log = tiered_log(tmp_path, local_retention_bytes=0)
    append_as_leader(log, batch_of(b"x"), leader_epoch=0, now_ms=0)
    assert delete_old_segments(log, 0) == 0
    assert log.segments.base_offsets == [0]
    log.update_high_watermark(1)
    assert delete_old_segments(log, 0) == 0
    assert log.segments.base_offsets == [0, 1]


def test_segments_below_the_log_start_need_no_copy(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE), 6)
    assert log.maybe_increment_log_start_offset(3)
    assert delete_old_segments(log, 0) == 1
    assert (starts(log), log.segments.base_offsets) == ((3, 3), [2, 4])


def test_a_log_start_in_the_tier(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE, local_retention_bytes=1), 6)
    log.update_highest_offset_in_remote_storage(3)
    delete_old_segments(log, 0)
    assert log.maybe_increment_log_start_offset(1)
    assert (starts(log), log.leader_epochs.entries) == ((1, 4), [(0, 1)])


def test_a_restart_knows_the_log_start_and_not_the_tier(tmp_path: Path) -> None:
    config = tiered_config(segment_bytes=2 * SIZE, local_retention_bytes=1)
    manager = manager_of(tmp_path, config=config)
    log = fill(manager.get_or_create_log("t", 0, bytes(16), None, 0), 6)
    log.update_highest_offset_in_remote_storage(3)
    delete_old_segments(log, 0)
    log.maybe_increment_log_start_offset(1)
    manager.clean_shutdown()
    again = manager_of(tmp_path, config=config).get_log("t", 0)
    assert again is not None
    assert starts(again) == (1, 4)
    assert (again.high_watermark, again.highest_offset_in_remote_storage) == (6, -1)
    assert again.leader_epochs.entries == [(0, 1)]


def test_a_log_start_that_was_not_checkpointed_is_zero(tmp_path: Path) -> None:
    """After a power cut the leader looks in the tier; a high watermark is never below the local log
    start."""
    config = tiered_config(segment_bytes=2 * SIZE, local_retention_bytes=1)
    manager = manager_of(tmp_path, config=config)
    log = fill(manager.get_or_create_log("t", 0, bytes(16), None, 0), 6)
    log.update_highest_offset_in_remote_storage(3)
    delete_old_segments(log, 0)
    manager.release()
    again = manager_of(tmp_path, config=config).get_log("t", 0)
    assert again is not None
    assert (starts(again), again.high_watermark) == ((0, 4), 4)


def test_a_truncation_below_all_segments_keeps_the_records_in_the_tier(tmp_path: Path) -> None:
    log = tiered_log(tmp_path, segment_bytes=2 * SIZE, local_retention_bytes=1)
    for epoch in range(3):
        fill(log, 2, epoch=epoch)
    log.update_highest_offset_in_remote_storage(3)
    delete_old_segments(log, 0)
    assert log.truncate_to(2)
    assert (starts(log), log.log_end_offset) == ((0, 2), 2)
    assert log.leader_epochs.entries == [(0, 0)]
    # What comes next is not in the tier.
    assert log.highest_offset_in_remote_storage == 1


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__remote_log_metadata"])
def test_internal_topics_have_no_tier(tmp_path: Path, topic: str) -> None:
    log = tiered_log(tmp_path, topic=topic)
    log.update_highest_offset_in_remote_storage(1)
    assert not log.has_remote_tier
    assert log.highest_offset_in_remote_storage == -1


def test_what_is_only_local(tmp_path: Path) -> None:
    log = fill(tiered_log(tmp_path, segment_bytes=2 * SIZE), 5)
    assert [segment.base_offset for segment in log.only_local] == [0, 2, 4]
    log.update_highest_offset_in_remote_storage(3)
    assert [segment.base_offset for segment in log.only_local] == [4]


ON: dict[str, str | None] = {"remote.storage.enable": "true"}


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"cleanup.policy": "compact"}, "unsupported for the compacted"),
        ({"retention.ms": "5", "local.retention.ms": "6"}, "not be more than retention.ms"),
        ({"retention.ms": "5", "local.retention.ms": "-1"}, "not be -1 as retention.ms"),
        ({"retention.bytes": "5", "local.retention.bytes": "6"}, "value: 5"),
        ({"retention.bytes": "5", "local.retention.bytes": "-1"}, "is set as 5"),
        ({"remote.log.copy.disable": "true"}, "Zookeeper's mode"),
    ],
)
def test_configs_that_a_tiered_topic_may_not_have(
    configs: dict[str, str | None], message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        validate_topic_configs({**ON, **configs}, SYSTEM)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    if "retention" in message:
        validate_topic_configs(configs, SYSTEM)  # of a topic without a tier


@pytest.mark.parametrize(
    "configs",
    [
        {"retention.ms": "5", "local.retention.ms": "5"},
        {"retention.bytes": "5", "local.retention.bytes": "-2"},
        {"retention.ms": "-1", "local.retention.ms": "-1"},
    ],
)
def test_configs_that_a_tiered_topic_may_have(configs: dict[str, str | None]) -> None:
    validate_topic_configs({**ON, **configs}, SYSTEM)


def test_a_topic_keeps_its_tier() -> None:
    stored = {"remote.storage.enable": "true"}
    for texts in ({}, {"remote.storage.enable": "false"}):
        with pytest.raises(KafkaError, match="disable remote storage"):
            validate_topic_configs(texts, SYSTEM, stored)
        validate_topic_configs(texts, SYSTEM, {})
