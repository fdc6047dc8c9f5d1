"""The names of topics that a request names by id (KIP-516).

Job: a topic gets its name from the metadata cache before permissions are checked and before the
handler runs; both know topics by name. An unknown id is answered with UNKNOWN_TOPIC_ID, as an
element of its own. The page of an API declares the list and the first version with ids
(`protocol/api_page.py::TopicsById`).

Invariants: names are set for each request anew, since the message may be that of an earlier one;
an answer has the ids of its request (the handlers copy them).

Mirrors the look-ups in KafkaApis.handleProduceRequest and handleOffsetCommitRequest. Leaves out
Fetch and OffsetFetch, whose handlers look up names themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.api import ApiKey, page
from ...protocol.api_page import TopicsById
from ...protocol.errors import ErrorCode
from .request import Request
from .taken_out import take_out

Handle = Callable[[Request], Any]
UNKNOWN = ""


class TopicNames:
    """Wraps the handlers of a broker without an authorizer; with one, the guard has it."""

    __slots__ = ("_name_of",)

    def __init__(self, name_of: Callable[[bytes], str | None]) -> None:
        """`name_of` is the name of a topic by its id; None: there is no such topic."""
        self._name_of = name_of

    def of(self, key: ApiKey, version: int) -> Naming | None:
        """Of requests of this version; None if they have names."""
        place = page(key).topics_by_id
        if place is None or version < place.since:
            return None
        return Naming(self._name_of, place)

    def __call__(self, key: ApiKey, handle: Handle, version: int) -> Handle:
        naming = self.of(key, version)
        if naming is None:
            return handle
        name = naming.name_or_answer

        def named(request: Request) -> None:
            if name(request):
                handle(request)

        return named


class Naming:
    """Names the topics of the requests of one API."""

    __slots__ = ("_name_of", "_topics")

    def __init__(self, name_of: Callable[[bytes], str | None], place: TopicsById) -> None:
        self._name_of = name_of
        self._topics = place.topics

    def name(self, request: Request) -> bool:
        """Set the names, of unknown topics to UNKNOWN; whether all are known."""
        are_known = True
        name_of = self._name_of
        for topic in getattr(request.body, self._topics):
            topic.name = name_of(topic.topic_id) or UNKNOWN
            if not topic.name:
                are_known = False
        return are_known

    def name_or_answer(self, request: Request) -> bool:
        """Set the names, and take unknown topics out of the request. False: there are no others,
        and it is answered."""
        if self.name(request):
            return True
        topics = getattr(request.body, self._topics)
        return take_out(
            request,
            self._topics,
            [topic for topic in topics if topic.name],
            [topic for topic in topics if not topic.name],
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
