"""The membership of a share consumer in its group: heartbeats to the coordinator, and the end.

Mirrors: ShareHeartbeatRequestManager, which runs the machine in `membership`.
"""

from __future__ import annotations

from typing import Final

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.share_group_heartbeat import ShareGroupHeartbeatResponse
from ...protocol.features import Feature
from ..cluster import RETRY_BACKOFF_SECONDS, CoordinatorKind, now_ms
from ..connection import Connection
from ..consumer.membership import Outcome
from ..errors import ClientError, LoginError, Refused, Unsupported
from .membership import ShareState
from .state import ShareConsumerState

NEWEST: Final = 1
IDLE_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 10.0


class ShareHeartbeats:
    """See the module."""

    def __init__(self, state: ShareConsumerState) -> None:
        self._state = state

    async def run(self) -> None:
        """Run until it is cancelled."""
        state = self._state
        while True:
            due = state.member.heartbeat_due_ms(now_ms())
            if due == 0:
                await self._attempt()
                continue
            await state.beats.wait(IDLE_SECONDS if due is None else due / 1000)

    async def _attempt(self) -> None:
        state = self._state
        try:
            outcome = await self._heartbeat()
        except (LoginError, Refused, Unsupported) as error:
            state.fail(error)
            outcome = Outcome.RETRY
        except ClientError as error:
            state.cluster.report(str(error))
            outcome = Outcome.FIND_COORDINATOR
        if outcome is Outcome.FIND_COORDINATOR:
            state.member.on_silence()
            state.cluster.forget_coordinator(CoordinatorKind.GROUP, state.options.group_id)
        if outcome in (Outcome.RETRY, Outcome.FIND_COORDINATOR):
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        if state.member.fatal is not None:
            state.arrived.ring()
        state.bell.ring()

    async def _coordinator(self) -> Connection:
        state = self._state
        connection = await state.cluster.coordinator(
            CoordinatorKind.GROUP, state.options.group_id, f"{state.purpose} beats"
        )
        if not connection.features.get(Feature.SHARE):
            raise Unsupported(
                "the cluster has no share groups: finalize share.version with: "
                "pybroker features upgrade --feature share.version=1"
            )
        return connection

    async def _heartbeat(self) -> Outcome:
        member = self._state.member
        connection = await self._coordinator()
        asked = member.heartbeat_request(now_ms())
        if asked is None:
            return Outcome.IGNORED
        with trio.move_on_after(SILENCE_SECONDS):
            answer = await connection.request(
                ApiKey.SHARE_GROUP_HEARTBEAT, asked, ShareGroupHeartbeatResponse, newest=NEWEST
            )
            before = member.assigned
            outcome = member.on_heartbeat(answer, asked)
            if member.assigned != before:
                self._state.refresh()
            return outcome
        return Outcome.FIND_COORDINATOR

    async def leave(self) -> None:
        """Leave the group, if the consumer is in it."""
        member = self._state.member
        if member.state is ShareState.OUT:
            return
        request = member.leave_request()
        if request is None:
            return
        try:
            connection = await self._coordinator()
            await connection.request(
                ApiKey.SHARE_GROUP_HEARTBEAT, request, ShareGroupHeartbeatResponse, newest=NEWEST
            )
        except ClientError as error:
            self._state.cluster.report(str(error))
