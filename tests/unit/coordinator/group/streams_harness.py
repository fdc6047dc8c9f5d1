"""The group coordinator's harness with a cluster's topics and StreamsGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.coordinator.group.streams.config import StreamsGroupConfig
from pybroker_kafka.coordinator.group.streams.requests import Beat
from pybroker_kafka.coordinator.group.streams.streams_group import StreamsGroup
from pybroker_kafka.coordinator.group.streams.topic_configuration import Status
from pybroker_kafka.protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestCopartitionGroup,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestKeyValue,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import read_batch_header
from tests.unit.coordinator.group.consumer_harness import Topics
from tests.unit.coordinator.group.harness import GROUP, HOST, Call, Harness

NO_DELAY = StreamsGroupConfig(initial_rebalance_delay_ms=0, assignment_interval_ms=0)
TaskLists = Mapping[str, Sequence[int]]
Subtopology = StreamsGroupHeartbeatRequestSubtopology
TopicInfo = StreamsGroupHeartbeatRequestTopicInfo


def subtopology(
    name: str,
    *sources: str,
    changelogs: Sequence[str] = (),
    sinks: Sequence[str] = (),
    repartition: Mapping[str, int] | None = None,
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """`together`: copartition groups, of the places of source and repartition topics."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        state_changelog_topics=[TopicInfo(name=topic) for topic in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[
            TopicInfo(name=topic, partitions=count) for topic, count in (repartition or {}).items()
        ],
        copartition_groups=[
            StreamsGroupHeartbeatRequestCopartitionGroup(
                source_topics=list(first), repartition_source_topics=list(second)
            )
            for first, second in together
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> StreamsGroupHeartbeatRequestTopology:
    return StreamsGroupHeartbeatRequestTopology(epoch=epoch, subtopologies=list(subtopologies))


PLAIN = topology(subtopology("0", "in"))
COUNTING = topology(
    subtopology("0", "in", sinks=["repartition"]),
    subtopology("1", repartition={"repartition": 0}, changelogs=["changelog"]),
)


def task_lists(tasks: TaskLists | None) -> list[StreamsGroupHeartbeatRequestTaskIds] | None:
    if tasks is None:
        return None
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=name, partitions=list(partitions))
        for name, partitions in tasks.items()
    ]


class StreamsHarness(Harness):
    def __init__(
        self,
        topics: Topics | None = None,
        streams_config: StreamsGroupConfig = NO_DELAY,
        config: GroupConfig | None = None,
    ) -> None:
        self.topics = topics or Topics(**{"in": 4})
        self.streams_config = streams_config
        super().__init__(config)

    def _new_machine(self) -> GroupCoordinator:
        machine = GroupCoordinator(
            self.config,
            self._new_uuid,
            self.wall,
            image=self.topics,
            streams_config=self.streams_config,
        )
        machine.start(self.partition_count, self.now_ms)
        machine.tick(self.now_ms)
        assert not machine.take_effects()
        return machine

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Finish the held appends; with most errors they are not in the log."""
        if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            for effect, base_offset in self.held:
                self.log[effect.partition] = [
                    batch
                    for batch in self.log[effect.partition]
                    if read_batch_header(batch).base_offset != base_offset
                ]
        super().release(error)

    def send(self, request: StreamsGroupHeartbeatRequest, client_id: str = "client") -> Call:
        call = self._call(f"heartbeat of {request.member_id} in epoch {request.member_epoch}")
        self.machine.streams_heartbeat(Beat(call, request, client_id, HOST), self.now_ms)
        self.perform()
        return call

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        active: TaskLists | None = None,
        standby: TaskLists | None = None,
        endpoint: str | None = None,
        tags: Mapping[str, str] | None = None,
        group: str = GROUP,
        **values: Any,
    ) -> Call:
        """StreamsGroupHeartbeat; `active` and `standby` say what the member has, both or none."""
        has_tasks = active is not None or standby is not None
        return self.send(
            StreamsGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                active_tasks=task_lists((active or {}) if has_tasks else None),
                standby_tasks=task_lists((standby or {}) if has_tasks else None),
                warmup_tasks=[] if has_tasks else None,
                user_endpoint=None
                if endpoint is None
                else StreamsGroupHeartbeatRequestEndpoint(host=endpoint, port=7070),
                client_tags=None
                if tags is None
                else [
                    StreamsGroupHeartbeatRequestKeyValue(key=key, value=value)
                    for key, value in tags.items()
                ],
                **values,
            )
        )

    def join_streams(
        self,
        member: str,
        of: StreamsGroupHeartbeatRequestTopology = PLAIN,
        *,
        process: str | None = None,
        timeout_ms: int = 60_000,
        **values: Any,
    ) -> Call:
        return self.beat(
            member,
            0,
            active={},
            topology=of,
            process_id=process or f"process of {member}",
            rebalance_timeout_ms=timeout_ms,
            **values,
        )

    def streams_group(self, group_id: str = GROUP) -> StreamsGroup:
        found = self.group(group_id).streams
        assert found is not None
        return found


def answer(call: Call) -> StreamsGroupHeartbeatResponse:
    response: StreamsGroupHeartbeatResponse = call.response.response
    return response


def error(call: Call) -> ErrorCode:
    return ErrorCode(answer(call).error_code)


def active(call: Call) -> dict[str, list[int]] | None:
    return _tasks(answer(call).active_tasks)


def standby(call: Call) -> dict[str, list[int]] | None:
    return _tasks(answer(call).standby_tasks)


def _tasks(tasks: Any) -> dict[str, list[int]] | None:
    return None if tasks is None else {one.subtopology_id: one.partitions for one in tasks}


def statuses(call: Call) -> dict[Status, str]:
    return {Status(one.status_code): one.status_detail for one in answer(call).status or ()}


_FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Streams:
    """A member that follows the protocol: it gives up at once what it should not have."""

    def __init__(
        self,
        harness: StreamsHarness,
        member_id: str,
        process: str,
        of: StreamsGroupHeartbeatRequestTopology,
    ) -> None:
        self.harness = harness
        self.member_id = member_id
        self.process = process
        self.topology = of
        self.epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}
        # What it had when it said so last.
        self._told: Any = None

    def beat(self, **values: Any) -> Call:
        """One heartbeat, and what follows from its answer, if it comes at once."""
        h = self.harness
        told = (dict(self.active), dict(self.standby))
        if self.epoch == 0:
            self.active, self.standby, told = {}, {}, ({}, {})
            call = h.join_streams(self.member_id, self.topology, process=self.process, **values)
        else:
            if self._told != told:
                values |= {"active": self.active, "standby": self.standby}
            call = h.beat(self.member_id, self.epoch, **values)
        self._told = None
        if not call.is_waiting:
            self.take(call, told)
        return call

    def take(self, call: Call, told: Any = None) -> None:
        """What follows from an answer."""
        if error(call) in _FENCED:
            self.epoch, self.active, self.standby = 0, {}, {}
        elif error(call) is ErrorCode.NONE:
            self._told = told
            self.epoch = answer(call).member_epoch
            mine = active(call)
            if mine is not None:
                self.active, self.standby = mine, standby(call) or {}
