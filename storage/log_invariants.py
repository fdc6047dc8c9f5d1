"""The rules that the offsets of a log keep, and a thorough check of all that a log holds.

Invariants: log start <= last stable offset <= high watermark <= log end; log start <= local log
start <= high watermark, and they differ only in a log with a remote tier; producers, epochs and
segments end with the log. A broken one is a `BrokenInvariant`, which ends the broker.

Beyond Kafka: UnifiedLog checks none of them.
"""

from __future__ import annotations

from ..protocol.invariants import BrokenInvariant
from .readable_log import ReadableLog


def check_offsets(log: ReadableLog) -> None:
    """The first rule, after a change of one of the four offsets."""
    start, end = log.log_start_offset, log.log_end_offset
    if not start <= log.last_stable_offset <= log.high_watermark <= end:
        raise broken(log, "log start <= LSO <= HW <= log end")
    if log.local_log_start_offset > log.high_watermark:
        raise broken(log, "local log start <= HW")


def check_append(log: ReadableLog) -> None:
    """A thorough check of the state that an append has changed."""
    check_offsets(log)
    end, known = log.log_end_offset, log.producers.known.map_end_offset
    if known != end:
        raise broken(log, f"the producers are known up to {known}, not to the log end")
    if log.leader_epochs.latest_start_offset >= end:
        raise broken(log, f"an epoch begins behind it: {log.leader_epochs.entries[-1]}")


def check_all(log: ReadableLog) -> None:
    """Thorough: all that there is agrees, after segments or offsets have gone."""
    check_offsets(log)
    recovery_point, end = log.recovery_point, log.log_end_offset
    if recovery_point > end:
        raise broken(log, f"what is on disk ends at {recovery_point}, behind the log end")
    if log.leader_epochs.latest_start_offset > end:
        raise broken(log, f"an epoch begins behind it: {log.leader_epochs.entries[-1]}")
    # Only a remote tier has records below the first segment.
    start = log.local_log_start_offset if log.has_remote_tier else log.log_start_offset
    log.segments.check(start, end, log.name)
    if not log.producers.is_being_rebuilt:  # else at its end
        log.producers.known.check_all(log.name)


def broken(log: ReadableLog, rule: str) -> BrokenInvariant:
    return BrokenInvariant(f"{rule}: {log!r}, LSO {log.last_stable_offset}")
