"""The requests that sending depends on: a producer id, and partitions in the transaction.

Mirrors: the requests that Sender sends for TransactionManager.
"""

from __future__ import annotations

import trio

from ..cluster import RETRY_BACKOFF_SECONDS
from ..errors import ClientError, LoginError, ProducerFenced, Refused, Unsupported
from .coordination import Coordination, idempotent_identity
from .settlement import Settlement
from .state import ProducerState
from .transaction import State, Transaction


class Upkeep:
    """`coordination` is None without a transactional id.

    Invariant: it wakes the sender only after a change; the sender's rounds wake it in turn, so
    otherwise the two would wake each other forever.
    """

    def __init__(
        self, state: ProducerState, settlement: Settlement, coordination: Coordination | None
    ) -> None:
        self._state = state
        self._settlement = settlement
        self._coordination = coordination

    async def run(self) -> None:
        """Send requests as wanted until cancelled."""
        state = self._state
        while True:
            await state.upkeep_wanted.wait()
            state.upkeep_wanted = trio.Event()
            if state.transaction is not None:
                await self._add_partitions(state.transaction)
            elif state.identities.is_wanted:
                topics = [queue.topic for queue in state.accumulator.busy]
                if topics:
                    await self._take_identity(topics[0])

    async def _take_identity(self, topic: str) -> None:
        try:
            self._state.identities.take(await idempotent_identity(self._state.cluster, topic))
            self._state.wake_sender()
        except (LoginError, Refused, Unsupported) as error:
            self._settlement.end(error)
        except ClientError:  # no broker answers at the moment
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            self._state.upkeep_wanted.set()

    async def _add_partitions(self, transaction: Transaction) -> None:
        assert self._coordination is not None
        while transaction.missing and transaction.state in (State.OPEN, State.COMMITTING):
            places = sorted(transaction.missing)
            try:
                await self._coordination.add_partitions(self._state.identities.current, places)
            except ClientError as error:
                if isinstance(error, ProducerFenced):
                    self._settlement.end(error)
                transaction.doom(error)
                self._settlement.drop_waiting(error)
                return
            transaction.added.update(places)
            transaction.missing.difference_update(places)
            self._state.wake_sender()
