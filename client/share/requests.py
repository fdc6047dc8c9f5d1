"""The requests of a share session, made of its steps; pure.

Mirrors: ShareFetchRequest.Builder and ShareAcknowledgeRequest.Builder of the Java client.
"""

from __future__ import annotations

from ...protocol.apis import share_acknowledge, share_fetch
from ...protocol.apis.share_acknowledge import ShareAcknowledgeRequest
from ...protocol.apis.share_fetch import ShareFetchRequest
from .membership import IdPartition
from .options import ShareOptions
from .session import Runs, SessionStep


def acknowledge_request(
    options: ShareOptions, member_id: str, step: SessionStep
) -> ShareAcknowledgeRequest:
    """The request that sends the results of a step."""
    topics: dict[bytes, list[share_acknowledge.AcknowledgePartition]] = {}
    for (topic_id, partition), runs in step.acknowledged.items():
        batches = [
            share_acknowledge.AcknowledgementBatch(
                first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
            )
            for run in runs
        ]
        topics.setdefault(topic_id, []).append(
            share_acknowledge.AcknowledgePartition(
                partition_index=partition, acknowledgement_batches=batches
            )
        )
    return ShareAcknowledgeRequest(
        group_id=options.group_id,
        member_id=member_id,
        share_session_epoch=step.epoch,
        is_renew_ack=step.is_renewal,
        topics=[
            share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def fetch_request(options: ShareOptions, member_id: str, step: SessionStep) -> ShareFetchRequest:
    """The request for more records, which takes the results of the step along. A renewal of locks
    fetches nothing."""
    topics: dict[bytes, dict[int, share_fetch.FetchPartition]] = {}
    for topic_id, partition in [*step.added, *step.acknowledged]:
        topics.setdefault(topic_id, {})[partition] = share_fetch.FetchPartition(
            partition_index=partition,
            acknowledgement_batches=_batches(step.acknowledged, (topic_id, partition)),
        )
    request = ShareFetchRequest(
        group_id=options.group_id,
        member_id=member_id,
        share_session_epoch=step.epoch,
        is_renew_ack=step.is_renewal,
        max_bytes=0,
        topics=[
            share_fetch.FetchTopic(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in topics.items()
        ],
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[partition])
            for topic_id, partition in step.forgotten
        ],
    )
    if not step.is_renewal:
        request.max_wait_ms = int(options.fetch_max_wait_seconds * 1000)
        request.min_bytes = options.fetch_min_bytes
        request.max_bytes = options.fetch_max_bytes
        request.max_records = request.batch_size = options.max_poll_records
    return request


def _batches(acknowledged: Runs, place: IdPartition) -> list[share_fetch.AcknowledgementBatch]:
    return [
        share_fetch.AcknowledgementBatch(
            first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
        )
        for run in acknowledged.get(place, ())
    ]
