"""`pybroker logdirs`: the log directories of brokers, and the replicas in them.

Mirrors: kafka-log-dirs. Moving a replica is `pybroker partitions move-log-dir`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..client.admin.rows import place_text
from .completion import brokers_option, optional_places
from .places import find_places
from .target import Row, Target, cluster_options

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.log_dirs import LogDir
    from ..client.admin.results import Results


@click.command(
    epilog="""\b
Examples:
  pybroker logdirs
  pybroker logdirs flights --broker 1 --replicas
"""
)
@optional_places
@brokers_option
@click.option("--replicas", is_flag=True, help="Show each replica, not only the directories.")
@cluster_options
def logdirs(
    target: Target, places: tuple[str, ...], brokers: tuple[int, ...], replicas: bool
) -> None:
    """Show the log directories of brokers: replicas, bytes, and free space of the volume."""

    async def work(admin: Admin) -> Results[int, tuple[LogDir, ...]]:
        wanted = await find_places(admin, places) if places else None
        return await admin.log_dirs.describe(brokers or None, wanted)

    found = target.ask(work)
    rows = [
        row
        for broker_id, dirs in found.values.items()
        for one in dirs
        for row in (_replica_rows(broker_id, one) if replicas else [_row(broker_id, one)])
    ]
    target.show_found(rows, found.errors, "there are no replicas")


def _row(broker_id: int, one: LogDir) -> Row:
    return {
        "broker": broker_id,
        "directory": one.path,
        "replicas": len(one.replicas),
        "bytes": sum(replica.size_bytes for replica in one.replicas.values()),
        "usable_bytes": one.usable_bytes if one.usable_bytes >= 0 else None,
        "total_bytes": one.total_bytes if one.total_bytes >= 0 else None,
        "error": str(one.error) if one.error else None,
    }


def _replica_rows(broker_id: int, one: LogDir) -> list[Row]:
    return [
        {
            "broker": broker_id,
            "directory": one.path,
            "partition": place_text(place),
            "bytes": replica.size_bytes,
            "lag": replica.lag,
            "arriving": is_future,
        }
        for (place, is_future), replica in sorted(one.replicas.items())
    ]
