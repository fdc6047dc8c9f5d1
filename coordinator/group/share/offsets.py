"""Other start offsets for a share group without members, and none at all.

Both have two steps: the group's record says what is under way, then the share coordinator does it
(the caller's part, between the two), and a second record says that it is done.

Mirrors alterShareGroupOffsets and the two halves of deleteShareGroupOffsets in
GroupMetadataManager.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from ....protocol.apis import alter_share_group_offsets as alter
from ....protocol.apis import delete_share_group_offsets as delete
from ....protocol.apis.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from ....protocol.apis.delete_share_group_state import PartitionData as DeletePartition
from ....protocol.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from ....protocol.errors import ErrorCode
from ..consumer.assignment import Assignment
from ..consumer.requests import Refused
from ..consumer.writing import Edit
from .heartbeats import ShareGroups
from .share_group import ShareGroup
from .states import SetStates, States, TopicStates, with_topics

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Altering(NamedTuple):
    """The answer so far, and the states to begin."""

    topics: list[alter.AlterShareGroupOffsetsResponseTopic]
    request: InitializeShareGroupStateRequest


class Deleting(NamedTuple):
    """Topics that failed, and the states to delete."""

    failed: list[delete.DeleteShareGroupOffsetsResponseTopic]
    request: DeleteShareGroupStateRequest


class ShareGroupOffsets(ShareGroups):
    __slots__ = ()

    def assignable(self, group_id: str) -> Assignment:
        """The partitions whose states are there; none of an unknown group."""
        holder = self._core.groups.get(group_id)
        if holder is None or not isinstance(holder.consumer, ShareGroup):
            return {}
        return holder.consumer.assignable

    def alter(
        self, token: object, request: alter.AlterShareGroupOffsetsRequest, now_ms: int
    ) -> None:
        """Answered with Altering, or as a heartbeat that is refused. Raises Refused."""
        group = self._empty_group(request.group_id, may_create=True)
        topics, asked = [], []
        begun: dict[bytes, TopicStates] = {}
        for topic in request.topics:
            topic_id = self._image.topic_id(topic.topic_name)
            count = 0 if topic_id is None else self._image.partition_count(topic_id) or 0
            known = [one for one in topic.partitions if 0 <= one.partition_index < count]
            topics.append(_altered(topic, topic_id, count))
            if topic_id is not None and known:
                indexes = frozenset(one.partition_index for one in known)
                begun[topic_id] = TopicStates(topic.topic_name, indexes)
                partitions = [
                    PartitionData(
                        partition=one.partition_index,
                        state_epoch=group.epoch,
                        start_offset=one.start_offset,
                    )
                    for one in known
                ]
                asked.append(InitializeStateData(topic_id=topic_id, partitions=partitions))
        states = group.known_states
        initializing = with_topics(states.initializing, begun)
        deleting = {key: name for key, name in states.deleting.items() if key not in begun}
        after = States(initializing, states.initialized, deleting)
        group.begun_ms.update(dict.fromkeys(begun, now_ms))
        begin = InitializeShareGroupStateRequest(group_id=request.group_id, topics=asked)
        self._set_states(group, after, now_ms, token, Altering(topics, begin))

    def delete(
        self, token: object, request: delete.DeleteShareGroupOffsetsRequest, now_ms: int
    ) -> None:
        """Answered with Deleting, or as a heartbeat that is refused. Raises Refused."""
        group = self._empty_group(request.group_id, may_create=False)
        states = group.known_states
        initialized, deleting = dict(states.initialized), dict(states.deleting)
        failed, asked = [], []
        for topic in request.topics:
            name = topic.topic_name
            topic_id = self._image.topic_id(name)
            if topic_id is None:
                failed.append(_not_deleted(name, _UNKNOWN.description))
                continue
            known = initialized.pop(topic_id, None)
            if known is None and topic_id not in deleting:
                failed.append(_not_deleted(name, "There is no offset information to delete."))
                continue
            deleting[topic_id] = name
            count = self._image.partition_count(topic_id) or 0
            indexes = frozenset(range(count)) if known is None else known.partitions
            partitions = [DeletePartition(partition=index) for index in sorted(indexes)]
            asked.append(DeleteStateData(topic_id=topic_id, partitions=partitions))
        after = States(states.initializing, initialized, deleting)
        gone = DeleteShareGroupStateRequest(group_id=request.group_id, topics=asked)
        self._set_states(group, after, now_ms, token, Deleting(failed, gone))

    def deleted(
        self, token: object, group_id: str, topic_ids: Collection[bytes], now_ms: int
    ) -> None:
        """The states of these topics are gone. Answered with None. Raises Refused."""
        group = self._share_group_for(group_id, may_create=False)
        states = group.known_states
        deleting = {key: name for key, name in states.deleting.items() if key not in topic_ids}
        self._set_states(group, states._replace(deleting=deleting), now_ms, token, None)

    def _empty_group(self, group_id: str, *, may_create: bool) -> ShareGroup:
        error = self._core.check_group(group_id)
        if error is not ErrorCode.NONE:
            raise Refused(error)
        group = self._share_group_for(group_id, may_create=may_create)
        if group.members:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        return group

    def _set_states(
        self, group: ShareGroup, states: States, now_ms: int, token: object, response: Any
    ) -> None:
        edit = Edit(group)
        if states != group.known_states:
            edit.apply(SetStates(states))
        self.writer.commit(edit, now_ms, token, response)


def _altered(
    topic: alter.AlterShareGroupOffsetsRequestTopic, topic_id: bytes | None, count: int
) -> alter.AlterShareGroupOffsetsResponseTopic:
    partitions = []
    for asked in topic.partitions:
        result = alter.AlterShareGroupOffsetsResponsePartition(
            partition_index=asked.partition_index
        )
        if not 0 <= asked.partition_index < count:
            result.error_code, result.error_message = _UNKNOWN, _UNKNOWN.description
        partitions.append(result)
    made = alter.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, partitions=partitions
    )
    if topic_id is not None:
        made.topic_id = topic_id
    return made


def _not_deleted(name: str, message: str) -> delete.DeleteShareGroupOffsetsResponseTopic:
    return delete.DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=_UNKNOWN, error_message=message
    )
