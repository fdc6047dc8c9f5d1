"""The calls of a transactional producer: begin, commit, abort, offsets of a group, and the epoch.

`transaction.py` has the decisions, `coordination.py` the requests.
Invariant: however a call ends, also by a cancellation, the transaction's state is definite: it has
ended, it can be aborted, or (fenced, or with an unknown outcome) it is the last one.

Mirrors: KafkaProducer's transactional methods, TransactionManager.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio

from ..errors import ClientError, ProducerFenced
from .completion import Completion
from .coordination import Coordination, GroupMetadata, Offsets
from .state import ProducerState
from .transaction import State, Transaction


class Transactions:
    """The transactions of one producer; `flush` waits until all its records are complete."""

    def __init__(
        self,
        state: ProducerState,
        completion: Completion,
        coordination: Coordination,
        transaction: Transaction,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = state.settings
        self._identities = state.identities
        self._completion = completion
        self._coordination = coordination
        self._transaction = transaction
        self._flush = flush

    async def initialise(self) -> None:
        """Get a newer epoch, under which all numbers begin anew. Raises ClientError."""
        transaction = self._transaction
        self._identities.take(await self._coordination.initialise(self._identities.current))
        transaction.needs_epoch = False
        transaction.is_version_2 = self._coordination.has_version_2
        if transaction.state is State.NEW:
            transaction.move(State.READY)

    @property
    def is_under_way(self) -> bool:
        """Whether it has begun, and was not ended by the user."""
        return self._transaction.state in (State.OPEN, State.DOOMED)

    @asynccontextmanager
    async def block(self) -> AsyncIterator[None]:
        """Begin; commit at the end of the block, or abort. Raises ClientError."""
        self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            with trio.move_on_after(self._settings.max_block_ms / 1000, shield=True):
                if self.is_under_way:
                    with suppress(ClientError):
                        await self.abort()
            raise

    def begin(self) -> None:
        """Begin a transaction. Raises ClientError."""
        transaction = self._transaction
        transaction.begin()
        transaction.is_version_2 &= self._coordination.has_version_2

    async def commit(self) -> None:
        """See `Producer.commit_transaction`."""
        transaction = self._transaction
        transaction.check_open("commit")
        await self._flush()
        transaction.check_open("commit")
        transaction.move(State.COMMITTING)
        await self._end(is_commit=True)

    async def abort(self) -> None:
        """See `Producer.abort_transaction`."""
        transaction = self._transaction
        if not self.is_under_way:
            transaction.check_open("abort")
        transaction.move(State.ABORTING)
        with suppress(ClientError):
            await self._flush()
        await self._end(is_commit=False)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """See `Producer.send_offsets`."""
        transaction = self._transaction
        transaction.check_open("send offsets")
        if isinstance(group, str):
            group = GroupMetadata(group)
        identity = self._identities.current
        try:
            transaction.has_offsets = True
            await self._coordination.commit_offsets(
                identity, offsets, group, adds=transaction.is_version_2
            )
        except ClientError as error:
            self._failed(error)
            raise

    async def _end(self, *, is_commit: bool) -> None:
        transaction = self._transaction
        try:
            if transaction.is_known_to_coordinator:
                identity = self._identities.current
                ended = await self._coordination.end(
                    identity, is_commit=is_commit, raises=transaction.is_version_2
                )
                if ended != identity:
                    self._identities.take(ended)
                    transaction.needs_epoch = False
            # An epoch of before version 2 may be that of a late request.
            is_new = self._coordination.has_version_2 and not transaction.is_version_2
            if transaction.needs_epoch or is_new:
                await self.initialise()
        except ClientError as error:
            if not is_commit or isinstance(error, ProducerFenced):
                self._completion.end(error)
                transaction.end(error)
            self._failed(error)
            raise
        except BaseException as error:
            # The outcome is unknown: the next producer with this id completes it.
            transaction.end(ClientError("the end of a transaction was cancelled"))
            self._completion.end(ClientError(f"the end of a transaction was cancelled: {error!r}"))
            raise
        transaction.move(State.READY)

    def _failed(self, error: ClientError) -> None:
        if isinstance(error, ProducerFenced):
            self._completion.end(error)
            self._transaction.end(error)
        else:
            self._transaction.doom(error)
