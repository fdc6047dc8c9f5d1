"""The log manager's periodic checkpoints at a moment that a test chooses."""

from pybroker_kafka.storage.checkpoints import LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE
from pybroker_kafka.storage.local_log import CutNotNoted
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager


def checkpoint_recovery_points(manager: LogManager) -> None:
    _write(manager, RECOVERY_POINT_FILE)


def checkpoint_log_start_offsets(manager: LogManager) -> None:
    _write(manager, LOG_START_OFFSET_FILE)


def _write(manager: LogManager, name: str) -> None:
    for job in manager.maintenance.checkpoint_jobs(name):
        job.run()


def cut(log: Log, offset: int, now_ms: int = 0) -> bool:
    """Truncate, after the flush that notes it where that is needed."""
    try:
        return log.truncate_to(offset, now_ms)
    except CutNotNoted:
        log.flush()
        return log.truncate_to(offset, now_ms)
