"""Results of records, on their way to the brokers: renewals of locks, commits, the end of sessions.

Invariants: one request at a time in a session; results whose answer is lost are void with their
session, and the next `commit` reports them.

Mirrors: the acknowledgements of ShareConsumeRequestManager. Leaves out acknowledgement callbacks.
"""

from __future__ import annotations

from typing import Final

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.share_acknowledge import ShareAcknowledgeResponse
from ...protocol.errors import ErrorCode
from ..errors import ClientError, Unsupported
from .requests import acknowledge_request
from .session import Acknowledge, SessionStep
from .state import Held, ShareConsumerState

NEWEST: Final = 2
FIRST_THAT_RENEWS: Final = 2


class ShareResults:
    """See the module."""

    def __init__(self, state: ShareConsumerState) -> None:
        self._state = state

    async def renew(self, held: Held) -> None:
        """Lock a record for as long again. Raises ClientError."""
        state = self._state
        connection = await state.cluster.connection(held.node, state.purpose)
        if connection.version(ApiKey.SHARE_ACKNOWLEDGE, NEWEST) < FIRST_THAT_RENEWS:
            raise Unsupported("the broker renews no locks")
        session = state.session(held.node)
        session.acknowledge(held.place, held.record.offset, Acknowledge.RENEW)
        problems = await self._send(held.node)
        if problems:
            raise ClientError("; ".join(problems))

    async def commit(self) -> None:
        """Send all results, and wait until the brokers have stored them. Raises ClientError if
        some since the last commit are not stored."""
        state = self._state
        problems: list[str] = []
        for node in list(state.sessions):
            problems += await self._send(node)
        await trio.lowlevel.checkpoint()
        for node, session in state.sessions.items():
            for place in session.take_void():
                head = f"results of {state.name(place)}: "
                if not any(each.startswith(head) for each in problems):
                    problems.append(f"{head}broker {node} has not stored all")
        if problems:
            raise ClientError("; ".join(problems))

    async def end_sessions(self) -> None:
        """Send the last results; brokers release records without one."""
        async with trio.open_nursery() as nursery:
            for node in self._state.sessions:
                nursery.start_soon(self._end_session, node)

    async def _end_session(self, node: int) -> None:
        for problem in await self._send(node, is_final=True):
            self._state.cluster.report(problem)

    async def _send(self, node: int, *, is_final: bool = False) -> list[str]:
        """The refusals of the broker."""
        state = self._state
        async with state.turn(node):
            session = state.session(node)
            step = session.final_step() if is_final else session.acknowledge_step()
            if step is None:
                return []
            try:
                answer = await self._request(node, step)
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
                    problems.append(state.problem(place, part.error_code))
                    if any(
                        run.kind is not Acknowledge.RENEW
                        for run in step.acknowledged.get(place, ())
                    ):
                        session.not_stored(place)
        return problems

    async def _request(self, node: int, step: SessionStep) -> ShareAcknowledgeResponse:
        state = self._state
        connection = await state.cluster.connection(node, state.purpose)
        return await connection.request(
            ApiKey.SHARE_ACKNOWLEDGE,
            acknowledge_request(state.options, state.member.member_id, step),
            ShareAcknowledgeResponse,
            newest=NEWEST,
        )
