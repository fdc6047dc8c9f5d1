"""The error response of every API: the whole request failed with one code.

Each API has its own shape: a top-level code, or the code once per topic, partition, group or
resource of the request. `None` means that the API has no error response in this case (Produce with
acks=0): the connection is closed.

Mirrors `AbstractRequest.getErrorResponse` of Kafka's request classes. Imported on the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from typing import Any, Final, NamedTuple, Protocol

from .api import ApiKey, response_class
from .element_errors import ELEMENT_BUILDERS, offset_delete
from .errors import ErrorCode
from .messages import (
    cluster,
    configs,
    consumer_groups,
    fetch,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    quotas,
    reassignments,
    replication,
    topics,
)


class FailedRequest(Protocol):
    """What is read of a request."""

    @property
    def api_key(self) -> ApiKey: ...

    @property
    def api_version(self) -> int: ...

    @property
    def body(self) -> Any: ...


SLICE_ELEMENTS: Final = 500
# What may be long in a request that is handled as a whole, in the order of the response's elements.
_LONG_LISTS: Final[dict[ApiKey, tuple[str, ...]]] = {
    ApiKey.FETCH: ("topics",),
    ApiKey.METADATA: ("topics",),
    ApiKey.CREATE_TOPICS: ("topics",),
    ApiKey.DELETE_TOPICS: ("topic_names", "topics"),
    ApiKey.CREATE_PARTITIONS: ("topics",),
    ApiKey.DESCRIBE_CONFIGS: ("resources",),
    ApiKey.ALTER_CONFIGS: ("resources",),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("resources",),
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries",),
    ApiKey.CREATE_ACLS: ("creations",),
    ApiKey.DELETE_ACLS: ("filters",),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("users",),
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries",),
}

FIRST_ELECT_LEADERS_WITH_CODE: Final = 1

Builder = Callable[[FailedRequest, int, str | None], Any]


def error_response(request: FailedRequest, code: ErrorCode, message: str | None = None) -> Any:
    """The response that says `code` for all of `request`, or None if there is no such response."""
    build = _BUILDERS.get(request.api_key)
    text = message or code.description
    if build is not None:
        return build(request, int(code), text)
    # A top-level code, and perhaps a text: all other APIs.
    response: Any = response_class(request.api_key)()
    if hasattr(response, "error_code"):
        response.error_code = int(code)
    if hasattr(response, "error_message"):
        response.error_message = text
    return response


def error_elements(request: FailedRequest, code: ErrorCode) -> Any:
    """The elements of `request`, each with `code`, in a response that says nothing else; None if
    there is no such response. Not for every API."""
    build = offset_delete if request.api_key is ApiKey.OFFSET_DELETE else _BUILDERS[request.api_key]
    return build(request, int(code), None)


def error_response_slices(
    request: FailedRequest, code: ErrorCode, message: str | None = None
) -> Generator[None, None, Any]:
    """As `error_response`, in slices: for requests that are large, and not handled in parts."""
    lists = {
        name: getattr(request.body, name) or () for name in _LONG_LISTS.get(request.api_key, ())
    }
    if all(len(items) <= SLICE_ELEMENTS for items in lists.values()):
        return error_response(request, code, message)
    rest = copy(request.body)
    for name in lists:
        setattr(rest, name, [])
    response: Any = None
    for name, items in lists.items():
        for start in range(0, len(items), SLICE_ELEMENTS):
            body = copy(rest)
            setattr(body, name, items[start : start + SLICE_ELEMENTS])
            piece = _Slice(request.api_key, request.api_version, body)
            more = error_response(piece, code, message)
            if response is None:
                response = more
            else:
                _join(response, more)
            yield
    return response


class _Slice(NamedTuple):
    """A request with some of the elements of another."""

    api_key: ApiKey
    api_version: int
    body: Any


def _join(response: Any, more: Any) -> None:
    """Put what is in the lists of `more` behind what is in those of `response`."""
    for field in type(response)._fields:
        if field.kind == "array":
            getattr(response, field.name).extend(getattr(more, field.name))


def _produce(request: FailedRequest, code: int, text: str | None) -> Any:
    if request.body.acks == 0:
        return None
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    produce.PartitionProduceResponse(
                        index=partition.index, error_code=code, base_offset=-1, error_message=text
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.body.topic_data
        ]
    )


def _fetch(request: FailedRequest, code: int, _text: str | None) -> Any:
    if request.api_version >= 7:
        # A session-level error; Kafka repeats the code only for sessionless requests before v13.
        return fetch.FetchResponse(error_code=code, session_id=request.body.session_id)
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    fetch.FetchResponsePartitionData(
                        partition_index=partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _list_offsets(request: FailedRequest, code: int, _text: str | None) -> Any:
    return offsets.ListOffsetsResponse(
        topics=[
            offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    offsets.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _offset_for_leader_epoch(request: FailedRequest, code: int, _text: str | None) -> Any:
    return offsets.OffsetForLeaderEpochResponse(
        topics=[
            offsets.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    offsets.OffsetForLeaderEpochResponseEpochEndOffset(
                        error_code=code, partition=partition.partition
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _delete_records(request: FailedRequest, code: int, _text: str | None) -> Any:
    return offsets.DeleteRecordsResponse(
        topics=[
            offsets.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    offsets.DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=-1,
                        error_code=code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _metadata(request: FailedRequest, code: int, _text: str | None) -> Any:
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(
                error_code=code,
                name=topic.name if topic.name is not None or request.api_version >= 12 else "",
                topic_id=bytes(topic.topic_id),
            )
            for topic in request.body.topics or ()
        ]
    )


def _api_versions(request: FailedRequest, code: int, _text: str | None) -> Any:
    """An unsupported version is told the supported ones, in the form of version 0."""
    from .api import API_TABLE

    spec = API_TABLE[ApiKey.API_VERSIONS]
    keys = []
    if code == ErrorCode.UNSUPPORTED_VERSION:
        keys.append(
            metadata.ApiVersion(
                api_key=spec.key, min_version=spec.min_version, max_version=spec.max_version
            )
        )
    return metadata.ApiVersionsResponse(error_code=code, api_keys=keys)


def _leader_and_isr(request: FailedRequest, code: int, _text: str | None) -> Any:
    error = replication.LeaderAndIsrPartitionError
    response = replication.LeaderAndIsrResponse(error_code=code)
    if request.api_version >= 5:
        response.topics = [
            replication.LeaderAndIsrTopicError(
                topic_id=bytes(topic.topic_id),
                partition_errors=[
                    error(partition_index=state.partition_index, error_code=code)
                    for state in topic.partition_states
                ],
            )
            for topic in request.body.topic_states
        ]
        return response
    states = [(state.topic_name, state) for state in request.body.ungrouped_partition_states]
    states += [
        (topic.topic_name, state)
        for topic in request.body.topic_states
        for state in topic.partition_states
    ]
    response.partition_errors = [
        error(topic_name=name, partition_index=state.partition_index, error_code=code)
        for name, state in states
    ]
    return response


def _stop_replica(request: FailedRequest, code: int, _text: str | None) -> Any:
    body = request.body
    partitions = [(p.topic_name, p.partition_index) for p in body.ungrouped_partitions]
    partitions += [
        (topic.name, index) for topic in body.topics for index in topic.partition_indexes
    ]
    partitions += [
        (topic.topic_name, state.partition_index)
        for topic in body.topic_states
        for state in topic.partition_states
    ]
    return replication.StopReplicaResponse(
        error_code=code,
        partition_errors=[
            replication.StopReplicaPartitionError(
                topic_name=name, partition_index=index, error_code=code
            )
            for name, index in partitions
        ],
    )


def _offset_commit(request: FailedRequest, code: int, _text: str | None) -> Any:
    return group_offsets.OffsetCommitResponse(
        topics=[
            group_offsets.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    group_offsets.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _offset_fetch(request: FailedRequest, code: int, _text: str | None) -> Any:
    if request.api_version >= 8:
        return group_offsets.OffsetFetchResponse(
            groups=[
                group_offsets.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
                for group in request.body.groups
            ]
        )
    response = group_offsets.OffsetFetchResponse()
    if request.api_version >= 2:
        response.error_code = code
    else:
        response.topics = [
            group_offsets.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    group_offsets.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.body.topics or ()
        ]
    return response


def _find_coordinator(request: FailedRequest, code: int, text: str | None) -> Any:
    if request.api_version < 4:
        return groups.FindCoordinatorResponse(
            error_code=code, error_message=text, node_id=-1, host="", port=-1
        )
    return groups.FindCoordinatorResponse(
        coordinators=[
            groups.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text
            )
            for key in request.body.coordinator_keys
        ]
    )


def _join_group(request: FailedRequest, code: int, _text: str | None) -> Any:
    return groups.JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_name=None if request.api_version >= 7 else "",
        member_id="",
    )


def _describe_groups(request: FailedRequest, code: int, _text: str | None) -> Any:
    return group_admin.DescribeGroupsResponse(
        groups=[
            group_admin.DescribeGroupsResponseDescribedGroup(group_id=group, error_code=code)
            for group in request.body.groups
        ]
    )


def _delete_groups(request: FailedRequest, code: int, _text: str | None) -> Any:
    return group_admin.DeleteGroupsResponse(
        results=[
            group_admin.DeletableGroupResult(group_id=group, error_code=code)
            for group in request.body.groups_names
        ]
    )


def _consumer_group_describe(request: FailedRequest, code: int, text: str | None) -> Any:
    return consumer_groups.ConsumerGroupDescribeResponse(
        groups=[
            consumer_groups.ConsumerGroupDescribeResponseDescribedGroup(
                group_id=group, error_code=code, error_message=text
            )
            for group in request.body.group_ids
        ]
    )


def _create_topics(request: FailedRequest, code: int, text: str | None) -> Any:
    return topics.CreateTopicsResponse(
        topics=[
            topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=text)
            for topic in request.body.topics
        ]
    )


def _delete_topics(request: FailedRequest, code: int, text: str | None) -> Any:
    entries = [(name, bytes(16)) for name in request.body.topic_names]
    entries += [(topic.name, bytes(topic.topic_id)) for topic in request.body.topics]
    return topics.DeleteTopicsResponse(
        responses=[
            topics.DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=text
            )
            for name, topic_id in entries
        ]
    )


def _create_partitions(request: FailedRequest, code: int, text: str | None) -> Any:
    return topics.CreatePartitionsResponse(
        results=[
            topics.CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=text)
            for topic in request.body.topics
        ]
    )


def _describe_configs(request: FailedRequest, code: int, text: str | None) -> Any:
    return configs.DescribeConfigsResponse(
        results=[
            configs.DescribeConfigsResult(
                error_code=code,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.body.resources
        ]
    )


def _alter_configs(request: FailedRequest, code: int, text: str | None) -> Any:
    incremental = request.api_key is ApiKey.INCREMENTAL_ALTER_CONFIGS
    entry: Any = (
        configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse
        if incremental
        else configs.AlterConfigsResponseAlterConfigsResourceResponse
    )
    response: Any = (
        configs.IncrementalAlterConfigsResponse if incremental else configs.AlterConfigsResponse
    )
    return response(
        responses=[
            entry(
                error_code=code,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.body.resources
        ]
    )


def _alter_replica_log_dirs(request: FailedRequest, code: int, _text: str | None) -> Any:
    return log_dirs.AlterReplicaLogDirsResponse(
        results=[
            log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    log_dirs.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=code
                    )
                    for index in topic.partitions
                ],
            )
            for directory in request.body.dirs
            for topic in directory.topics
        ]
    )


def _elect_leaders(request: FailedRequest, code: int, text: str | None) -> Any:
    return reassignments.ElectLeadersResponse(
        error_code=code if request.api_version >= FIRST_ELECT_LEADERS_WITH_CODE else 0,
        replica_election_results=[
            reassignments.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    reassignments.PartitionResult(
                        partition_id=index, error_code=code, error_message=text
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.body.topic_partitions or ()
        ],
    )


def _allocate_producer_ids(_request: FailedRequest, code: int, _text: str | None) -> Any:
    return cluster.AllocateProducerIdsResponse(
        error_code=code, producer_id_start=-1, producer_id_len=0
    )


def _describe_client_quotas(_request: FailedRequest, code: int, text: str | None) -> Any:
    return quotas.DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)


def _alter_client_quotas(request: FailedRequest, code: int, text: str | None) -> Any:
    return quotas.AlterClientQuotasResponse(
        entries=[
            quotas.AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=text,
                entity=[
                    quotas.AlterClientQuotasResponseEntityData(
                        entity_type=named.entity_type, entity_name=named.entity_name
                    )
                    for named in entry.entity
                ],
            )
            for entry in request.body.entries
        ]
    )


_BUILDERS: dict[ApiKey, Builder] = {
    **ELEMENT_BUILDERS,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.METADATA: _metadata,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.STOP_REPLICA: _stop_replica,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
}
