"""Appends of single batches to a log, with the arguments that a test cares about."""

from __future__ import annotations

from pybroker_kafka.storage.append_info import Append, AppendInfo, AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.validation import AppendInput
from pybroker_kafka.storage.verification import VerificationGuard


def append_as_leader(
    log: Log,
    records: AppendInput,
    *,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    request_version: int | None = None,
    guard: VerificationGuard | None = None,
    transaction_version: int = 0,
) -> AppendInfo:
    guards = None if guard is None else {(log.topic, log.partition): guard}
    append = Append(now_ms, request_version, origin, guards, transaction_version)
    return log.append_as_leader(records, leader_epoch, append)
