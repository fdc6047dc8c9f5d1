"""The number of files and sockets that this process may have open, and the share of the logs.

The soft limit is raised to the hard one at the start, as the JVM does. The kernel assigns the
lowest free number, so the number of a new connection shows how many are left. Once connections are
half of all descriptors, the last quarter is for the logs alone; before that the logs have taken the
rest, and clients may use all but the last few. New partitions leave some for clients
(`storage.descriptors`).
"""

from __future__ import annotations

import contextlib
import resource

# With fewer a broker could not even hold its internal topics.
MIN_DESCRIPTORS = 128
# Used where the hard limit is "unlimited": some systems do not accept that as the soft limit.
MAX_RAISED = 1_048_576
# For the logs: a quarter, within these bounds, where connections are many.
MIN_RESERVE = 48
MAX_RESERVE = 4_096
# The part of them held open all the time, for steps that must not fail half-way.
SPARE_DESCRIPTORS = 16


class TooFewDescriptors(Exception):
    """The start of this process has to allow it more descriptors."""


def descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_RAISED if soft == resource.RLIM_INFINITY else soft


def connection_limit(connections: int, limit: int) -> int:
    """The first number that one more than so many connections may not have."""
    if 2 * connections < limit:
        return limit - MIN_RESERVE
    return limit - min(max(limit // 4, MIN_RESERVE), MAX_RESERVE)


def raise_descriptor_limit() -> None:
    """Take all descriptors that this process may have; TooFewDescriptors if that is not enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_RAISED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # a system with yet another limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = descriptor_limit()
    if limit < MIN_DESCRIPTORS:
        raise TooFewDescriptors(
            f"this process may have only {limit} files and connections open, {MIN_DESCRIPTORS} is "
            "the least: raise the hard limit (ulimit -Hn 4096; LimitNOFILE= in a systemd unit; "
            "--ulimit nofile=4096 for a container)"
        )
