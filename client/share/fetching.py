"""The fetches of a share consumer: records from the leaders of its partitions, into its buffer.

`run` fetches while a call waits for records and none are there, from all leaders beside each other;
it keeps the metadata, too. A fetch takes along the results that wait for its broker.

Invariants: one request at a time in a session; acquired records are in the buffer, or have a result
(REJECT if they cannot be read, GAP where there is none).

Mirrors: the fetches of ShareConsumeRequestManager.
"""

from __future__ import annotations

from typing import Final

import trio

from ...protocol.api import ApiKey
from ...protocol.apis import share_fetch
from ...protocol.apis.share_fetch import ShareFetchResponse
from ...protocol.errors import ErrorCode, ProtocolError
from ..cluster import RETRY_BACKOFF_SECONDS, now_ms
from ..errors import ClientError, LoginError, Refused
from ..refusals import NotAllowed
from .membership import IdPartition
from .records import unpack
from .requests import fetch_request
from .session import Acknowledge
from .state import STALE, Held, ShareConsumerState

NEWEST: Final = 2
IDLE_SECONDS: Final = 1.0


class ShareFetching:
    """See the module."""

    def __init__(self, state: ShareConsumerState) -> None:
        self._state = state
        self._fetching: set[int] = set()  # brokers with a fetch under way

    async def run(self, nursery: trio.Nursery) -> None:
        """Run until it is cancelled; each fetch is a task of the nursery."""
        state = self._state
        while True:
            if state.member.topics and state.metadata_due_ms <= now_ms():
                await self._update_metadata()
            if state.is_waiting and not state.buffer:
                for node, wanted in self._by_leader().items():
                    if node not in self._fetching:
                        self._fetching.add(node)
                        nursery.start_soon(self._fetch_from, node, wanted)
            due = IDLE_SECONDS
            if state.member.topics:
                due = (state.metadata_due_ms - now_ms()) / 1000
            await state.bell.wait(min(max(due, 0.01), IDLE_SECONDS))

    # Metadata

    async def _update_metadata(self) -> None:
        state = self._state
        try:
            answer = await state.cluster.metadata(sorted(state.member.topics))
        except (LoginError, Refused) as error:
            state.fail(error)
            answer = None
        except ClientError as error:
            state.cluster.report(str(error))
            answer = None
        seconds = RETRY_BACKOFF_SECONDS
        if answer is not None:
            state.view.take(answer)
            for name, code in state.view.errors.items():
                refusal = state.cluster.asks("describe", name).refusal(code)
                if refusal is not None:
                    state.fail(NotAllowed(refusal, code))
            unknown = [each for each in state.member.assigned if self._leader(each) is None]
            if not state.view.errors and not unknown:
                seconds = state.options.metadata_max_age_seconds
        state.metadata_due_ms = now_ms() + int(seconds * 1000)

    def _leader(self, place: IdPartition) -> int | None:
        view = self._state.view
        name = view.name_of(place[0])
        leader = None if name is None else view.leader((name, place[1]))
        return None if leader is None or leader.node < 0 else leader.node

    def _by_leader(self) -> dict[int, list[IdPartition]]:
        nodes: dict[int, list[IdPartition]] = {}
        for place in sorted(self._state.member.assigned):
            node = self._leader(place)
            if node is None:
                self._state.refresh_soon()
            else:
                nodes.setdefault(node, []).append(place)
        return nodes

    # Fetches

    async def _fetch_from(self, node: int, wanted: list[IdPartition]) -> None:
        state = self._state
        try:
            async with state.turn(node):
                await self._fetch(node, wanted)
        except (LoginError, Refused) as error:
            state.fail(error)
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        except ClientError as error:
            state.cluster.report(str(error))
            state.refresh()
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        self._fetching.discard(node)
        state.bell.ring()

    async def _fetch(self, node: int, wanted: list[IdPartition]) -> None:
        state = self._state
        session = state.session(node)
        step = session.fetch_step(wanted)
        number, sent_ms = session.number, now_ms()
        try:
            connection = await state.cluster.connection(node, state.purpose)
            answer = await connection.request(
                ApiKey.SHARE_FETCH,
                fetch_request(state.options, state.member.member_id, step),
                ShareFetchResponse,
                newest=NEWEST,
            )
        except BaseException:
            session.on_lost()
            raise
        code = ErrorCode(answer.error_code)
        if not session.on_answer(code):
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            return
        if code != ErrorCode.NONE:
            group = state.options.group_id
            state.cluster.asks("read", group).check(code, answer.error_message, f"group {group!r}")
        acquired = refused = 0
        for topic in answer.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                if part.acknowledge_error_code:
                    state.cluster.report(state.problem(place, part.acknowledge_error_code))
                    session.not_stored(place)
                if part.error_code:
                    refused += 1
                    self._refused(place, ErrorCode(part.error_code))
                elif part.acquired_records:
                    acquired += 1
                    until_ms = sent_ms + answer.acquisition_lock_timeout_ms
                    self._put(place, part, (node, number, until_ms))
        if state.buffer:
            state.arrived.ring()
        if refused and not acquired:
            await trio.sleep(RETRY_BACKOFF_SECONDS)  # the answer came at once, and the next would

    def _put(
        self, place: IdPartition, part: share_fetch.PartitionData, lock: tuple[int, int, int]
    ) -> None:
        """Acquired records into the buffer."""
        state = self._state
        session = state.session(lock[0])
        name = state.view.name_of(place[0])
        spans = [range(each.first_offset, each.last_offset + 1) for each in part.acquired_records]
        assert part.records is None or isinstance(part.records, bytes | memoryview)
        try:
            if name is None:  # the topic was deleted meanwhile
                raise ProtocolError("the name of the topic is not known")
            found = unpack((name, place[1]), part.records, part.acquired_records)
        except ProtocolError as error:
            state.cluster.report(f"records of {name}-{place[1]} are rejected: {error}")
            for span in spans:
                for offset in span:
                    session.acknowledge(place, offset, Acknowledge.REJECT)
            return
        for offset in found.gaps:
            session.acknowledge(place, offset, Acknowledge.GAP)
        state.buffer.extend(Held(record, place, *lock) for record in found.records)

    def _refused(self, place: IdPartition, code: ErrorCode) -> None:
        state = self._state
        name = state.view.name_of(place[0]) or place[0].hex()
        refusal = state.cluster.asks("read", name).refusal(code)
        if refusal is not None:
            state.fail(NotAllowed(refusal, code))
        elif code in STALE or code.retriable:
            state.refresh()
        else:
            text = f"{state.name(place)} cannot be fetched: {code.description} ({code.name})"
            state.fail(ClientError(text))
