"""The data of a share group's page: members, and the records in flight (KIP-932).

Members come from the group's coordinator, records from the leaders' metrics ports: Kafka's protocol
says how far a queue is, and neither locks nor delivery counts.
"""

from __future__ import annotations

from typing import Any, Final

import trio
from starlette.datastructures import QueryParams

from ..client.admin.routing import Answer, Purpose, ask_coordinators
from ..client.cluster import CoordinatorKind
from ..client.connection import Connection
from ..protocol.api import API_TABLE, ApiKey
from ..protocol.apis.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from .asked import Wrong
from .collector import Collector
from .inside import inside_of

DETAILS_SECONDS: Final = 1.0


async def share_group_details(collector: Collector, name: str) -> dict[str, Any]:
    """Raises ClientError, Wrong."""

    async def ask() -> dict[str, Any]:
        one = await _described(collector, name)
        partitions, problem = await _in_flight(collector, name)
        return {
            "group": name,
            "type": "share",
            "state": one.group_state,
            "assignor": one.assignor_name,
            "epoch": one.group_epoch,
            "target_epoch": one.assignment_epoch,
            "members": [
                {
                    "member": member.member_id,
                    "client": member.client_id,
                    "host": member.client_host,
                    "epoch": member.member_epoch,
                    "partitions": [
                        f"{topic.topic_name}-{number}"
                        for topic in member.assignment.topic_partitions
                        for number in topic.partitions
                    ],
                }
                for member in one.members
            ],
            "partitions": partitions,
            "problem": problem,
        }

    return await collector.shared.get(f"share group {name}", DETAILS_SECONDS, ask)


async def _described(collector: Collector, name: str) -> DescribedGroup:
    async def ask(connection: Connection, mine: list[str]) -> dict[str, Answer[DescribedGroup]]:
        key, request = ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=mine)
        newest = API_TABLE[key].max_version
        answer = await connection.request(key, request, ShareGroupDescribeResponse, newest=newest)
        return {g.group_id: Answer(g.error_code, g.error_message, g) for g in answer.groups}

    purpose = Purpose("describe", "cannot describe share group")
    found = await ask_coordinators(collector.cluster, CoordinatorKind.GROUP, [name], ask, purpose)
    return found[name]


async def _in_flight(collector: Collector, name: str) -> tuple[list[dict[str, Any]], str]:
    """A row a share partition of all brokers that answer; else the reason why there are none."""
    rows: list[dict[str, Any]] = []
    problems: list[str] = []

    async def read(broker: int) -> None:
        asked = {"view": "in-flight", "broker": str(broker), "group": name}
        try:
            found: Any = await inside_of(collector, QueryParams(asked))
        except Wrong as error:
            problems.append(str(error))
        else:
            rows.extend({**row, "broker": broker} for row in found)

    async with trio.open_nursery() as nursery:
        for broker in collector.view.brokers:
            nursery.start_soon(read, broker)
    rows.sort(key=lambda row: (row["topic"], row["partition"]))
    return rows, "" if rows or not problems else problems[0]
