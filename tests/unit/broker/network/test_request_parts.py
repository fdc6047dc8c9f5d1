"""Requests in parts: cut anywhere, the answers joined are the answer to the whole."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.broker.network.request_parts import (
    MAX_PART_ELEMENTS,
    PARTS,
    cut,
    join,
    place_to_cut,
    weight,
)
from pybroker.protocol.api import ApiKey, request_class, response_class
from pybroker.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.network import api_versions, running_network


def request(*groups: tuple[int, ...]) -> OffsetFetchRequest:
    """A group for each tuple, a topic for each number in it, with so many partitions."""
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{g}",
                topics=[
                    OffsetFetchRequestTopics(name=f"t{t}", partition_indexes=list(range(count)))
                    for t, count in enumerate(counts)
                ],
            )
            for g, counts in enumerate(groups)
        ]
    )


def answer(asked: OffsetFetchRequest) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(partition_index=index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in asked.groups
        ]
    )


@pytest.mark.parametrize(
    "groups",
    [
        ((5 * MAX_PART_ELEMENTS + 3,),),
        ((1,) * (3 * MAX_PART_ELEMENTS),),
        tuple((1, 2) for _ in range(2 * MAX_PART_ELEMENTS)),
        ((3, 4 * MAX_PART_ELEMENTS, 2), (7,), (), (MAX_PART_ELEMENTS, MAX_PART_ELEMENTS)),
    ],
)
def test_the_joined_answers_are_the_answer(groups: tuple[tuple[int, ...], ...]) -> None:
    whole = request(*groups)
    expected = answer(whole)
    place = place_to_cut(ApiKey.OFFSET_FETCH, whole)
    assert place is not None
    joined: Any = None
    parts = list(cut(whole.groups, place.asked[1:]))
    assert len(parts) > 1
    for part in parts:
        assert weight(part, place.asked[1:]) <= MAX_PART_ELEMENTS + 2  # and their outer elements
        response = answer(OffsetFetchRequest(groups=part))
        if joined is None:
            joined = response
        else:
            join(joined, response, place.answered)
    assert joined == expected
    assert whole == request(*groups), "the request is as it was"


def test_what_is_small_is_not_cut() -> None:
    assert place_to_cut(ApiKey.OFFSET_FETCH, request((MAX_PART_ELEMENTS - 2,))) is None
    assert place_to_cut(ApiKey.METADATA, MetadataRequest(topics=None)) is None


@pytest.mark.parametrize("key", sorted(PARTS), ids=lambda key: key.name)
def test_the_places_exist(key: ApiKey) -> None:
    for place in PARTS[key]:
        for cls, path in (
            (request_class(key), place.asked),
            (response_class(key), place.answered),
        ):
            for name in path:
                (field,) = [f for f in cls._fields if f.name == name]
                assert field.kind == "array"
                cls = field.element


async def test_a_large_request_through_the_network() -> None:
    """Decoded, handled and encoded in turns, while a small one on another connection passes."""
    async with running_network() as network:
        large, small = await network.connect(), await network.connect()
        names = [f"topic-{number}" for number in range(20_000)]
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        response = await large.ask(asked, 9)
        assert [topic.name for topic in response.topics] == names
        assert (await small.ask(api_versions(), 3)).error_code == 0
