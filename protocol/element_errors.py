"""The error responses of transactional and administrative APIs that say the code at each element.

Job: builders that `error_responses` adds to its own; split off for length. Each takes the failed
request, the code and a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .api import ApiKey
from .messages import (
    credentials,
    group_offsets,
    reassignments,
    security,
    transaction_admin,
    transactions,
)

ElementBuilder = Callable[[Any, int, str | None], Any]
FIRST_ADD_PARTITIONS_OF_BROKERS: Final = 4


def _add_partitions_to_txn(request: Any, code: int, _text: str | None) -> Any:
    if request.api_version >= FIRST_ADD_PARTITIONS_OF_BROKERS:
        return transactions.AddPartitionsToTxnResponse(error_code=code)
    return transactions.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            transactions.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    transactions.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.body.v3_and_below_topics
        ]
    )


def _write_txn_markers(request: Any, code: int, _text: str | None) -> Any:
    return transactions.WriteTxnMarkersResponse(
        markers=[
            transactions.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    transactions.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            transactions.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.body.markers
        ]
    )


def _txn_offset_commit(request: Any, code: int, _text: str | None) -> Any:
    return transactions.TxnOffsetCommitResponse(
        topics=[
            transactions.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    transactions.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def offset_delete(request: Any, code: int, _text: str | None) -> Any:
    """Of some topics; an error of the whole request is said once."""
    return group_offsets.OffsetDeleteResponse(
        topics=[
            group_offsets.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    group_offsets.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _describe_producers(request: Any, code: int, text: str | None) -> Any:
    return transaction_admin.DescribeProducersResponse(
        topics=[
            transaction_admin.TopicResponse(
                name=topic.name,
                partitions=[
                    transaction_admin.PartitionResponse(
                        partition_index=index, error_code=code, error_message=text
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.body.topics
        ]
    )


def _describe_transactions(request: Any, code: int, _text: str | None) -> Any:
    return transaction_admin.DescribeTransactionsResponse(
        transaction_states=[
            transaction_admin.DescribeTransactionsResponseTransactionState(
                error_code=code, transactional_id=name
            )
            for name in request.body.transactional_ids
        ]
    )


def _alter_partition_reassignments(request: Any, code: int, text: str | None) -> Any:
    return reassignments.AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=[
            reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    reassignments.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=text,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ],
    )


def _list_partition_reassignments(request: Any, code: int, text: str | None) -> Any:
    """What was asked for comes back, without replicas."""
    return reassignments.ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        topics=[
            reassignments.OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    reassignments.OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.body.topics or ()
        ],
    )


def _create_acls(request: Any, code: int, text: str | None) -> Any:
    return security.CreateAclsResponse(
        results=[
            security.AclCreationResult(error_code=code, error_message=text)
            for _ in request.body.creations
        ]
    )


def _delete_acls(request: Any, code: int, text: str | None) -> Any:
    return security.DeleteAclsResponse(
        filter_results=[
            security.DeleteAclsFilterResult(error_code=code, error_message=text)
            for _ in request.body.filters
        ]
    )


def _describe_user_scram_credentials(request: Any, code: int, text: str | None) -> Any:
    """Kafka leaves the names out of it."""
    return credentials.DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=text,
        results=[
            credentials.DescribeUserScramCredentialsResult(error_code=code, error_message=text)
            for _ in request.body.users or ()
        ],
    )


def _alter_user_scram_credentials(request: Any, code: int, text: str | None) -> Any:
    body = request.body
    users = {entry.name for entry in (*body.deletions, *body.upsertions)}
    return credentials.AlterUserScramCredentialsResponse(
        results=[
            credentials.AlterUserScramCredentialsResult(
                user=user, error_code=code, error_message=text
            )
            for user in sorted(users)
        ]
    )


ELEMENT_BUILDERS: Final[Mapping[ApiKey, ElementBuilder]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
}
