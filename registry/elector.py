"""The instance's membership in the group of the election: joins, heartbeats, and who is primary.

Invariants: this instance is primary only while the coordinator has confirmed it within the session
timeout, so a process that was frozen is none any more when it wakes up. A rebalance alone changes
nothing: the primary goes on until another one is named.
Mirrors: KafkaGroupLeaderElector, with Confluent's timeouts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from ..client.cluster import RETRY_BACKOFF_SECONDS, Cluster, CoordinatorKind, now_ms
from ..client.connection import Connection
from ..client.consumer.membership import Membership, Outcome, State
from ..client.errors import ClientError
from ..protocol.api import ApiKey
from ..protocol.apis.heartbeat import HeartbeatResponse
from ..protocol.apis.join_group import JoinGroupResponse
from ..protocol.apis.leave_group import LeaveGroupResponse
from ..protocol.apis.sync_group import SyncGroupResponse
from .election import (
    DUPLICATE_URLS,
    PROTOCOL_TYPE,
    SUBPROTOCOL,
    Assignment,
    BadElection,
    Identity,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)

SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
REBALANCE_TIMEOUT_MS: Final = 300_000
JOIN_GRACE_SECONDS: Final = 5.0
LEAVE_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 1.0
FIRST_WITH_MEMBERS: Final = 3  # of LeaveGroup

_log: Final = logging.getLogger("pybroker.registry")


class Elector:
    """`on_elected` is awaited with each primary that the group names, and with None; after False
    the election is repeated."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        identity: Identity,
        on_elected: Callable[[Identity | None], Awaitable[bool]],
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self.identity = identity
        self._cluster = cluster
        self._purpose = cluster.new_purpose("registry")
        self._on_elected = on_elected
        self._confirmed_ms = 0
        self._membership = Membership(
            group_id,
            instance_id=None,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3),
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            protocol_type=PROTOCOL_TYPE,
        )

    def is_confirmed(self) -> bool:
        """Whether the coordinator has answered this member within the session timeout."""
        m = self._membership
        return m.is_member and now_ms() - self._confirmed_ms < m.session_timeout_ms

    async def run(self) -> None:
        """Take part in the election until cancelled; then leave the group."""
        try:
            while True:
                await self._step()
        finally:
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._leave()

    async def _step(self) -> None:
        m = self._membership
        if m.fatal is not None:
            text = f"group {m.group_id!r}: {m.fatal.description} ({m.fatal.name})"
            raise ClientError(text)
        now = now_ms()
        if m.session_is_over(now):
            m.abandon_attempt("the coordinator has been silent for a session")
            await self._on_elected(None)
        if m.needs_rejoin:
            await self._attempt(self._rebalance)
        elif not m.heartbeat_due_ms(now):
            await self._attempt(self._heartbeat)
        else:
            await trio.sleep(min(m.heartbeat_due_ms(now) / 1000, IDLE_SECONDS))

    async def _attempt(self, work: Callable[[], Awaitable[Outcome]]) -> None:
        m = self._membership
        try:
            outcome = await work()
        except ClientError as error:
            _log.warning("election in group %s: %s", m.group_id, error)
            outcome = Outcome.FIND_COORDINATOR
        except BadElection as error:
            _log.error("election in group %s: %s", m.group_id, error)
            m.abandon_attempt("a member is no registry")
            outcome = Outcome.RETRY
        if outcome is Outcome.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, m.group_id)
        if outcome in (Outcome.FIND_COORDINATOR, Outcome.RETRY):
            if m.state not in (State.STABLE, State.UNJOINED):
                m.abandon_attempt("the coordinator did not answer")
            await trio.sleep(RETRY_BACKOFF_SECONDS)

    async def _coordinator(self) -> Connection:
        group = self._membership.group_id
        return await self._cluster.coordinator(CoordinatorKind.GROUP, group, self._purpose)

    async def _rebalance(self) -> Outcome:
        m = self._membership
        connection = await self._coordinator()
        timeout = REBALANCE_TIMEOUT_MS / 1000 + JOIN_GRACE_SECONDS
        request = m.join_request([(SUBPROTOCOL, encode_identity(self.identity))], now_ms())
        joined = await connection.request(
            ApiKey.JOIN_GROUP, request, JoinGroupResponse, timeout_seconds=timeout
        )
        outcome = m.on_join(joined, now_ms())
        if not m.awaits_sync():
            return outcome
        assignments = {}
        if m.is_leading:
            members = {name: decode_identity(data) for name, (data, _) in m.members.items()}
            chosen = encode_assignment(elect(members))
            assignments = dict.fromkeys(members, chosen)
        synced = await connection.request(
            ApiKey.SYNC_GROUP, m.sync_request(assignments), SyncGroupResponse
        )
        outcome = m.on_sync(synced, now_ms())
        if m.state is State.STABLE:
            self._confirmed_ms = now_ms()
            await self._take(decode_assignment(m.assignment))
        return outcome

    async def _take(self, assignment: Assignment) -> None:
        if assignment.error == DUPLICATE_URLS:
            _log.error(
                "two instances have the same address, %s: give each its own --advertised-host",
                self.identity.url,
            )
        primary = assignment.primary
        is_me = primary is not None and primary.url == self.identity.url
        self.identity = self.identity._replace(is_primary=is_me)
        if not await self._on_elected(primary):
            self._membership.rejoin("the primary cannot begin")
            await trio.sleep(RETRY_BACKOFF_SECONDS)

    async def _heartbeat(self) -> Outcome:
        m = self._membership
        connection = await self._coordinator()
        asked = m.heartbeat_request(now_ms())
        if asked is None:
            return Outcome.IGNORED
        sent_ms = now_ms()
        with trio.move_on_after(m.session_timeout_ms / 1000):
            answer = await connection.request(ApiKey.HEARTBEAT, asked, HeartbeatResponse)
            outcome = m.on_heartbeat(answer, asked, now_ms())
            if m.state is State.STABLE and outcome is Outcome.GO_ON:
                self._confirmed_ms = sent_ms
            if not m.is_member:
                await self._on_elected(None)
            return outcome
        return Outcome.FIND_COORDINATOR

    async def _leave(self) -> None:
        m = self._membership
        if not m.member_id:
            return
        try:
            connection = await self._coordinator()
            names = connection.version(ApiKey.LEAVE_GROUP) >= FIRST_WITH_MEMBERS
            request = m.leave_request("the registry ends", version_names_members=names)
            if request is not None:
                await connection.request(ApiKey.LEAVE_GROUP, request, LeaveGroupResponse)
        except ClientError as error:
            _log.info("the registry has not left its group: %s", error)
