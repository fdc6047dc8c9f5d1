"""A consumer of a queue, for trio: a member of a share group (KIP-932).

    async with ShareConsumer("localhost:9092", group_id="mails") as queue:
        await queue.subscribe(["orders"])
        async for record in queue:
            await send(record.value)  # the request for the next record accepts this one

A partition's records go to any member, each to one at a time: the broker locks it for that member
until it is accepted (done), released (it comes again), rejected (it does not), or its lock expires
(it comes again). With `acknowledgement="explicit"` the application decides by `accept`, `release`,
`reject` and `renew` (a longer lock), in any order. Results are sent with the next fetch, or at once
by `commit`.

Invariants: a record counts as accepted implicitly once the next one is requested, or the block is
left without an error; records that wait in the buffer longer than their lock are not handed out; a
cancelled request for records loses none.

Mirrors: KafkaShareConsumer, ShareConsumeRequestManager. Leaves out: acknowledgement callbacks
(failures of results that a fetch takes along go to `report`, and the next `commit` raises them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, NoReturn

import trio

from ...protocol.api import ApiKey
from ...protocol.apis import share_acknowledge, share_fetch
from ...protocol.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ...protocol.apis.share_fetch import ShareFetchRequest, ShareFetchResponse
from ...protocol.apis.share_group_heartbeat import ShareGroupHeartbeatResponse
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.features import Feature
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster, CoordinatorKind, now_ms
from ..connection import Connection
from ..consumer.background import Background, Bell
from ..consumer.epoch_member import new_member_id
from ..consumer.membership import Outcome
from ..consumer.topics_view import TopicsView
from ..errors import ClientError, LoginError, Refused, SettingsError, Unsupported
from ..refusals import NotAllowed
from ..running import refuse_plain_with, require_trio
from ..security.connector import Reach
from .membership import IdPartition, ShareMembership, ShareState
from .records import SharedRecord, unpack
from .session import Acknowledge, Runs, SessionStep, ShareSession

NEWEST_HEARTBEAT: Final = 1
NEWEST_FETCH: Final = 2
FIRST_THAT_RENEWS: Final = 2
IDLE_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 10.0
REFRESH_MS: Final = 100
MODES: Final = ("implicit", "explicit")

_STALE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(frozen=True, kw_only=True)
class ShareOptions:
    """Names and defaults are those of Kafka's share consumer; times are in seconds."""

    group_id: str
    acknowledgement: str = "implicit"
    rack: str | None = None
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_seconds: float = 0.5
    metadata_max_age_seconds: float = 300.0
    close_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.group_id:
            raise SettingsError("a share consumer needs a group_id")
        if self.acknowledgement not in MODES:
            raise SettingsError(f"acknowledgement is one of {', '.join(MODES)}")
        if self.max_poll_records < 1:
            raise SettingsError("max_poll_records is at least 1")


class _Held(NamedTuple):
    """A record, the session in which it was acquired, and the end of its lock."""

    record: SharedRecord
    place: IdPartition
    node: int
    session: int
    until_ms: int


class ShareConsumer:
    """The first argument names brokers, or is an open `Cluster`. Keywords are the fields of
    `ShareOptions`; the others are as in `Consumer`."""

    def __init__(
        self,
        bootstrap: str | Cluster,
        *,
        security: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
        network: Reach | None = None,
        **options: object,
    ) -> None:
        self.options = ShareOptions(**options)  # type: ignore[arg-type]
        self._is_mine = isinstance(bootstrap, str)
        self._cluster = (
            Cluster(bootstrap, report, security=security, network=network)
            if isinstance(bootstrap, str)
            else bootstrap
        )
        self._purpose = self._cluster.new_purpose("share")
        self._member = ShareMembership(self.options.group_id, new_member_id(), self.options.rack)
        self._view = TopicsView()
        self._metadata_due_ms = 0
        self._sessions: dict[int, ShareSession] = {}  # by broker
        self._turns: dict[int, trio.Lock] = {}  # one request at a time in a session
        self._fetching: set[int] = set()
        self._buffer: deque[_Held] = deque()
        self._held: dict[tuple[str, int, int], _Held] = {}  # handed out, without a result
        self._is_waiting = False  # a call waits for records
        self._bell = Bell()  # there is something to do
        self._beats = Bell()
        self._arrived = Bell()
        self._failure: Exception | None = None
        self._stack = AsyncExitStack()
        self._nursery: trio.Nursery | None = None

    def __enter__(self) -> NoReturn:
        refuse_plain_with("ShareConsumer")

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> ShareConsumer:
        require_trio("ShareConsumer")
        if self._is_mine:
            await self._stack.enter_async_context(self._cluster)
        self._stack.callback(self._cluster.close_connections, self._purpose)
        self._nursery = await self._stack.enter_async_context(Background())
        self._nursery.start_soon(self._run_heartbeats)
        self._nursery.start_soon(self._run_fetches)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with trio.move_on_after(self.options.close_timeout_seconds, shield=True):
                if error is None:
                    self._accept_held()
                assert self._nursery is not None
                self._nursery.cancel_scope.cancel()
                await self._end_sessions()
                await self._leave()
        finally:
            await self._stack.__aexit__(None, None, None)

    async def subscribe(self, topics: Iterable[str] | str) -> None:
        """Join the group for these topics."""
        self._member.subscribe([topics] if isinstance(topics, str) else list(topics))
        self._metadata_due_ms = 0
        self._bell.ring()
        self._beats.ring()
        await trio.lowlevel.checkpoint()

    # Records

    async def __aiter__(self) -> AsyncIterator[SharedRecord]:
        """Records one by one, forever. Raises ClientError for errors that waiting cannot
        resolve."""
        while True:
            (record,) = await self._next(1, None)
            yield record

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[SharedRecord]:
        """Records, as soon as there are some; [] after the timeout."""
        return await self._next(max_records or self.options.max_poll_records, timeout_seconds)

    async def _next(self, count: int, timeout_seconds: float | None) -> list[SharedRecord]:
        if self._nursery is None:
            raise ClientError("a share consumer is used with `async with`")
        deadline = trio.current_time() + (timeout_seconds or 0.0)
        self._accept_held()
        await trio.lowlevel.checkpoint()
        while True:
            self._raise_failure()
            found = self._take(count)
            if found:
                return found
            left = deadline - trio.current_time()
            if timeout_seconds is not None and left <= 0:
                return []
            self._is_waiting = True
            self._bell.ring()
            try:
                await self._arrived.wait(IDLE_SECONDS if timeout_seconds is None else left)
            finally:
                self._is_waiting = False

    def _raise_failure(self) -> None:
        error, self._failure = self._failure, None
        if error is not None:
            raise error
        if self._member.fatal is not None:
            (code, message), self._member.fatal = self._member.fatal, None
            self._member.subscribe(self._member.topics)
            name = self.options.group_id
            refusal = self._cluster.asks("read", name).refusal(code)
            text = message or code.description
            raise Refused(refusal or f"group {name!r}: {text} ({code.name})", code)

    def _take(self, count: int) -> list[SharedRecord]:
        """Records from the buffer whose locks hold."""
        now = now_ms()
        found: list[SharedRecord] = []
        while self._buffer and len(found) < count:
            held = self._buffer.popleft()
            if held.until_ms <= now or self._session(held.node).number != held.session:
                continue
            self._held[_key(held.record)] = held
            found.append(held.record)
        return found

    def _take_back(self, records: Iterable[SharedRecord]) -> None:
        """Records that did not reach the application: they are handed out again."""
        held = [self._held.pop(_key(record), None) for record in records]
        self._buffer.extendleft(each for each in reversed(held) if each is not None)

    # Results

    def accept(self, record: SharedRecord) -> None:
        """The record is done, and does not come again. Raises ClientError if it is not held."""
        self._acknowledge(record, Acknowledge.ACCEPT)

    def release(self, record: SharedRecord) -> None:
        """The record comes again, to any member; as `accept`."""
        self._acknowledge(record, Acknowledge.RELEASE)

    def reject(self, record: SharedRecord) -> None:
        """The record does not come again, as no member can process it; as `accept`."""
        self._acknowledge(record, Acknowledge.REJECT)

    async def renew(self, record: SharedRecord) -> None:
        """Lock the record for as long again; it stays held. Raises ClientError."""
        held = self._held_of(record)
        connection = await self._cluster.connection(held.node, self._purpose)
        if connection.version(ApiKey.SHARE_ACKNOWLEDGE, NEWEST_FETCH) < FIRST_THAT_RENEWS:
            raise Unsupported("the broker renews no locks")
        self._session(held.node).acknowledge(held.place, record.offset, Acknowledge.RENEW)
        problems = await self._send_results(held.node)
        if problems:
            raise ClientError("; ".join(problems))

    def _held_of(self, record: SharedRecord) -> _Held:
        if self.options.acknowledgement != "explicit":
            raise ClientError("results are given with acknowledgement='explicit'")
        held = self._held.get(_key(record))
        if held is None:
            raise ClientError(f"offset {record.offset} of {record.topic} is not held")
        return held

    def _acknowledge(self, record: SharedRecord, kind: Acknowledge) -> None:
        held = self._held_of(record)
        del self._held[_key(record)]
        self._note(held, kind)

    def _note(self, held: _Held, kind: Acknowledge) -> None:
        session = self._session(held.node)
        if session.number == held.session:
            session.acknowledge(held.place, held.record.offset, kind)
        else:
            session.not_stored(held.place)

    def _accept_held(self) -> None:
        """Without explicit results, records that were handed out are accepted."""
        if self.options.acknowledgement == "implicit":
            for held in self._held.values():
                self._note(held, Acknowledge.ACCEPT)
            self._held.clear()

    async def commit(self) -> None:
        """Send all results, and wait until the brokers have stored them. Raises ClientError if
        some since the last commit are not stored: their records come again."""
        self._accept_held()
        problems: list[str] = []
        for node in list(self._sessions):
            problems += await self._send_results(node)
        await trio.lowlevel.checkpoint()
        for node, session in self._sessions.items():
            for place in session.take_void():
                head = f"results of {self._name(place)}: "
                if not any(each.startswith(head) for each in problems):
                    problems.append(f"{head}broker {node} has not stored all")
        if problems:
            raise ClientError("; ".join(problems))

    async def _send_results(self, node: int, *, is_final: bool = False) -> list[str]:
        """The refusals of the broker."""
        async with self._turn(node):
            session = self._session(node)
            step = session.final_step() if is_final else session.acknowledge_step()
            if step is None:
                return []
            try:
                connection = await self._cluster.connection(node, self._purpose)
                answer = await connection.request(
                    ApiKey.SHARE_ACKNOWLEDGE, self._acknowledge_request(step),
                    ShareAcknowledgeResponse, newest=NEWEST_FETCH,
                )  # fmt: skip
            except ClientError as error:
                session.on_lost()
                return [str(error)]
            except BaseException:  # cancelled: the answer is not known
                session.on_lost()
                raise
            code = ErrorCode(answer.error_code)
            if not is_final:
                session.on_answer(code)
        if code != ErrorCode.NONE:
            return [answer.error_message or code.description]
        problems = []
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code:
                    place = (topic.topic_id, part.partition_index)
                    problems.append(self._problem(place, part.error_code))
                    if any(
                        run.kind is not Acknowledge.RENEW
                        for run in step.acknowledged.get(place, ())
                    ):
                        session.not_stored(place)
        return problems

    def _problem(self, place: IdPartition, code: int) -> str:
        error = ErrorCode(code)
        if error in _STALE:
            self._refresh()
        return f"results of {self._name(place)}: {error.description} ({error.name})"

    def _name(self, place: IdPartition) -> str:
        return f"{self._view.name_of(place[0]) or place[0].hex()}-{place[1]}"

    def _acknowledge_request(self, step: SessionStep) -> ShareAcknowledgeRequest:
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
            group_id=self.options.group_id,
            member_id=self._member.member_id,
            share_session_epoch=step.epoch,
            is_renew_ack=step.is_renewal,
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    # Fetches

    def _session(self, node: int) -> ShareSession:
        return self._sessions.setdefault(node, ShareSession())

    def _turn(self, node: int) -> trio.Lock:
        return self._turns.setdefault(node, trio.Lock())

    def _refresh(self) -> None:
        self._refresh_soon()
        self._bell.ring()

    def _refresh_soon(self) -> None:
        """For `_run_fetches` itself, which would never wait if it rang its own bell."""
        self._metadata_due_ms = min(self._metadata_due_ms, now_ms() + REFRESH_MS)

    async def _run_fetches(self) -> None:
        assert self._nursery is not None
        while True:
            if self._member.topics and self._metadata_due_ms <= now_ms():
                await self._update_metadata()
            if self._is_waiting and not self._buffer:
                for node, wanted in self._by_leader().items():
                    if node not in self._fetching:
                        self._fetching.add(node)
                        self._nursery.start_soon(self._fetch_from, node, wanted)
            due = (self._metadata_due_ms - now_ms()) / 1000 if self._member.topics else IDLE_SECONDS
            await self._bell.wait(min(max(due, 0.01), IDLE_SECONDS))

    async def _update_metadata(self) -> None:
        try:
            answer = await self._cluster.metadata(sorted(self._member.topics))
        except (LoginError, Refused) as error:
            self._fail(error)
            answer = None
        except ClientError as error:
            self._cluster.report(str(error))
            answer = None
        seconds = RETRY_BACKOFF_SECONDS
        if answer is not None:
            self._view.take(answer)
            for name, code in self._view.errors.items():
                refusal = self._cluster.asks("describe", name).refusal(code)
                if refusal is not None:
                    self._fail(NotAllowed(refusal, code))
            unknown = [each for each in self._member.assigned if self._leader(each) is None]
            if not self._view.errors and not unknown:
                seconds = self.options.metadata_max_age_seconds
        self._metadata_due_ms = now_ms() + int(seconds * 1000)

    def _leader(self, place: IdPartition) -> int | None:
        name = self._view.name_of(place[0])
        leader = None if name is None else self._view.leader((name, place[1]))
        return None if leader is None or leader.node < 0 else leader.node

    def _by_leader(self) -> dict[int, list[IdPartition]]:
        nodes: dict[int, list[IdPartition]] = {}
        for place in sorted(self._member.assigned):
            node = self._leader(place)
            if node is None:
                self._refresh_soon()
            else:
                nodes.setdefault(node, []).append(place)
        return nodes

    async def _fetch_from(self, node: int, wanted: list[IdPartition]) -> None:
        try:
            async with self._turn(node):
                await self._fetch(node, wanted)
        except (LoginError, Refused) as error:
            self._fail(error)
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        except ClientError as error:
            self._cluster.report(str(error))
            self._refresh()
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        self._fetching.discard(node)
        self._bell.ring()

    async def _fetch(self, node: int, wanted: list[IdPartition]) -> None:
        session = self._session(node)
        step = session.fetch_step(wanted)
        number, sent_ms = session.number, now_ms()
        try:
            connection = await self._cluster.connection(node, self._purpose)
            answer = await connection.request(
                ApiKey.SHARE_FETCH, self._fetch_request(step), ShareFetchResponse,
                newest=NEWEST_FETCH,
            )  # fmt: skip
        except BaseException:
            session.on_lost()
            raise
        code = ErrorCode(answer.error_code)
        if not session.on_answer(code):
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            return
        if code != ErrorCode.NONE:
            self._cluster.asks("read", self.options.group_id).check(
                code, answer.error_message, f"group {self.options.group_id!r}"
            )
        for topic in answer.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                if part.acknowledge_error_code:
                    self._cluster.report(self._problem(place, part.acknowledge_error_code))
                    session.not_stored(place)
                if part.error_code:
                    self._refused(place, ErrorCode(part.error_code))
                elif part.acquired_records:
                    until_ms = sent_ms + answer.acquisition_lock_timeout_ms
                    self._put(place, part, (node, number, until_ms))
        if self._buffer:
            self._arrived.ring()

    def _put(
        self, place: IdPartition, part: share_fetch.PartitionData, lock: tuple[int, int, int]
    ) -> None:
        """Acquired records into the buffer."""
        session = self._session(lock[0])
        name = self._view.name_of(place[0])
        spans = [range(each.first_offset, each.last_offset + 1) for each in part.acquired_records]
        assert part.records is None or isinstance(part.records, bytes | memoryview)
        try:
            if name is None:  # the topic was deleted meanwhile
                raise ProtocolError("the name of the topic is not known")
            found = unpack((name, place[1]), part.records, part.acquired_records)
        except ProtocolError as error:
            self._cluster.report(f"records of {name}-{place[1]} are rejected: {error}")
            for span in spans:
                for offset in span:
                    session.acknowledge(place, offset, Acknowledge.REJECT)
            return
        for offset in found.gaps:
            session.acknowledge(place, offset, Acknowledge.GAP)
        self._buffer.extend(_Held(record, place, *lock) for record in found.records)

    def _refused(self, place: IdPartition, code: ErrorCode) -> None:
        name = self._view.name_of(place[0]) or place[0].hex()
        refusal = self._cluster.asks("read", name).refusal(code)
        if refusal is not None:
            self._fail(NotAllowed(refusal, code))
        elif code in _STALE or code.retriable:
            self._refresh()
        else:
            self._fail(
                ClientError(
                    f"{name}-{place[1]} cannot be fetched: {code.description} ({code.name})"
                )
            )

    def _fetch_request(self, step: SessionStep) -> ShareFetchRequest:
        options = self.options
        topics: dict[bytes, dict[int, share_fetch.FetchPartition]] = {}
        for topic_id, partition in [*step.added, *step.acknowledged]:
            topics.setdefault(topic_id, {})[partition] = share_fetch.FetchPartition(
                partition_index=partition,
                acknowledgement_batches=_batches(step.acknowledged, (topic_id, partition)),
            )
        request = ShareFetchRequest(
            group_id=options.group_id,
            member_id=self._member.member_id,
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

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._arrived.ring()

    # Membership

    async def _run_heartbeats(self) -> None:
        member = self._member
        while True:
            due = member.heartbeat_due_ms(now_ms())
            if due == 0:
                await self._attempt()
                continue
            await self._beats.wait(IDLE_SECONDS if due is None else due / 1000)

    async def _attempt(self) -> None:
        try:
            outcome = await self._heartbeat()
        except (LoginError, Refused, Unsupported) as error:
            self._fail(error)
            outcome = Outcome.RETRY
        except ClientError as error:
            self._cluster.report(str(error))
            outcome = Outcome.FIND_COORDINATOR
        if outcome is Outcome.FIND_COORDINATOR:
            self._member.on_silence()
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.options.group_id)
        if outcome in (Outcome.RETRY, Outcome.FIND_COORDINATOR):
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        if self._member.fatal is not None:
            self._arrived.ring()
        self._bell.ring()

    async def _coordinator(self) -> Connection:
        connection = await self._cluster.coordinator(
            CoordinatorKind.GROUP, self.options.group_id, f"{self._purpose} beats"
        )
        if not connection.features.get(Feature.SHARE):
            raise Unsupported(
                "the cluster has no share groups: finalize share.version with: "
                "pybroker features upgrade --feature share.version=1"
            )
        return connection

    async def _heartbeat(self) -> Outcome:
        member = self._member
        connection = await self._coordinator()
        asked = member.heartbeat_request(now_ms())
        if asked is None:
            return Outcome.IGNORED
        with trio.move_on_after(SILENCE_SECONDS):
            answer = await connection.request(
                ApiKey.SHARE_GROUP_HEARTBEAT, asked, ShareGroupHeartbeatResponse,
                newest=NEWEST_HEARTBEAT,
            )  # fmt: skip
            before = member.assigned
            outcome = member.on_heartbeat(answer, asked)
            if member.assigned != before:
                self._refresh()
            return outcome
        return Outcome.FIND_COORDINATOR

    # Leaving

    async def _end_sessions(self) -> None:
        """Send the last results; brokers release records without one."""
        async with trio.open_nursery() as nursery:
            for node in self._sessions:
                nursery.start_soon(self._end_session, node)

    async def _end_session(self, node: int) -> None:
        for problem in await self._send_results(node, is_final=True):
            self._cluster.report(problem)

    async def _leave(self) -> None:
        if self._member.state is ShareState.OUT:
            return
        request = self._member.leave_request()
        if request is None:
            return
        try:
            connection = await self._coordinator()
            await connection.request(
                ApiKey.SHARE_GROUP_HEARTBEAT, request, ShareGroupHeartbeatResponse,
                newest=NEWEST_HEARTBEAT,
            )  # fmt: skip
        except ClientError as error:
            self._cluster.report(str(error))


def _key(record: SharedRecord) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _batches(acknowledged: Runs, place: IdPartition) -> list[share_fetch.AcknowledgementBatch]:
    return [
        share_fetch.AcknowledgementBatch(
            first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
        )
        for run in acknowledged.get(place, ())
    ]
