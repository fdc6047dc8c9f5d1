"""The broker's periodic jobs on its logs: checkpoints, expiry, retention; and its I/O threads.

The log manager returns the due jobs; blocking work (fsync, removing files) runs in a thread, one
job after the other, so that a slow disk delays jobs and not clients. Due flushes go to the log
flusher. Old segments are taken out of the logs on the loop, a few at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import trio

from ...protocol.invariants import BrokenInvariant
from ...replication.types import FlushNeeded
from ...storage.files import is_out_of_descriptors
from ...storage.log_manager import Job, LogManager
from .applied_replicas import AppliedReplicas

logger = logging.getLogger("pybroker.broker.replicas.log_jobs")

TICK_SECONDS = 1.0
STOPPING_THREADS = 4  # they wait for the disk; more hardly helped


async def run_storage_jobs(
    manager: LogManager, replicas: AppliedReplicas, clock: Callable[[], int],
    limiter: trio.CapacityLimiter, retry_refused: Callable[[], None],
) -> None:  # fmt: skip
    """Until cancelled; a job that has begun is waited for, and tried again as long as there are
    no file descriptors for it. `retry_refused` begins replicas that wait for them.

    Raises StartupError when the last log directory has failed: a broker that can store nothing
    ends, so that others lead its partitions.
    """
    while True:
        await trio.sleep(TICK_SECONDS)
        for step in manager.look_after_producers(clock()):
            if step is None:
                await trio.lowlevel.checkpoint()
            else:
                await _run_job(step, limiter)
        for _ in manager.retain(clock()):
            await trio.lowlevel.checkpoint()
        for log in manager.due_flushes(clock()):
            replicas.perform(FlushNeeded(log.topic, log.partition, log.log_end_offset, log))
        for job in manager.tick(clock()):
            await _run_job(job, limiter)
        retry_refused()
        with replicas.applying as replica_manager:
            replica_manager.waiting.check_log_dirs()
        manager.check_any_online()


async def _run_job(job: Job, limiter: trio.CapacityLimiter) -> None:
    while True:
        try:
            await trio.to_thread.run_sync(job.run, limiter=limiter)
            return
        except BrokenInvariant:
            raise
        except Exception as error:
            if not is_out_of_descriptors(error):
                logger.exception("The job to %s failed", job.name)
                return
            logger.warning("The job to %s is tried again: %s", job.name, error)
        await trio.sleep(TICK_SECONDS)


def run_in_threads(threads: int) -> Callable[[Iterable[Callable[[], None]]], None]:
    """Runs the loading jobs of one log directory, or the stop of all logs, so many at a time.

    Called from a worker thread, so plain threads: the loop is not involved.
    """

    def run_all(jobs: Iterable[Callable[[], None]]) -> None:
        if threads == 1:
            for job in jobs:
                job()
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="logs") as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()

    return run_all
