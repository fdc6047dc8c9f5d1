"""What `pybroker topics describe` prints of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...client.admin import TopicConfigs
from ...protocol.messages.metadata import MetadataResponseTopic
from ...protocol.uuids import uuid_to_text
from ...storage.retention import age_text, date_text

COLUMNS = ("partition", "leader", "epoch", "replicas", "ISR", "first", "next", "records")
UNKNOWN = "-"  # of a partition without a leader


class TopicView(NamedTuple):
    """A topic; offsets and newest timestamps (-1: no records) of the partitions with a leader."""

    topic: MetadataResponseTopic
    configs: TopicConfigs
    first: Mapping[int, int]
    following: Mapping[int, int]
    newest_ms: Mapping[int, int]

    def outlived(self, now_ms: int) -> dict[int, int]:
        """Partitions whose newest record is older than retention allows, with its timestamp."""
        effective = self.configs.effective
        retention_ms = int(effective["retention.ms"])
        if retention_ms < 0 or "delete" not in effective["cleanup.policy"].split(","):
            return {}
        return {
            partition: newest_ms
            for partition, newest_ms in sorted(self.newest_ms.items())
            if newest_ms >= 0 and now_ms - newest_ms > retention_ms
        }


def show_topic(view: TopicView, now_ms: int) -> None:
    """One topic: its settings, then each partition with its leader, ISR and offsets."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    topic = view.topic
    console = Console(highlight=False, soft_wrap=True)
    settings = ", ".join(f"{key}={value}" for key, value in sorted(view.configs.overrides.items()))
    console.print(
        f"[bold]{topic.name}[/]  id {uuid_to_text(topic.topic_id)}  "
        f"configs: {settings or 'all at their defaults'}"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for part in sorted(topic.partitions, key=lambda part: part.partition_index):
        index = part.partition_index
        first, following = view.first.get(index), view.following.get(index)
        count = UNKNOWN
        if first is not None and following is not None:
            count = f"{following - first:,}"
        table.add_row(
            str(index),
            str(part.leader_id) if part.leader_id >= 0 else "none",
            str(part.leader_epoch),
            ",".join(map(str, part.replica_nodes)),
            ",".join(map(str, part.isr_nodes)),
            UNKNOWN if first is None else str(first),
            UNKNOWN if following is None else str(following),
            count,
        )
    console.print(table)
    outlived = view.outlived(now_ms)
    if outlived:
        newest_ms = max(outlived.values())
        retention_ms = int(view.configs.effective["retention.ms"])
        some = "partition" if len(outlived) == 1 else "partitions"
        console.print(
            f"[yellow]past retention: the newest record of {some} "
            f"{', '.join(map(str, outlived))} is of {date_text(newest_ms)}, "
            f"{age_text(now_ms - newest_ms)} old, and retention.ms is {retention_ms} "
            f"({age_text(retention_ms)}): the next check deletes all records there. "
            "Set retention.ms=-1 to keep them.[/]"
        )
