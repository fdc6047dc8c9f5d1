"""The requests that sending depends on: a producer id, and partitions in the transaction.

Mirrors: the requests that Sender sends for TransactionManager.
"""

from __future__ import annotations

import trio

from ..cluster import RETRY_BACKOFF_SECONDS, Cluster
from ..errors import ClientError, LoginError, ProducerFenced, Refused, Unsupported
from .accumulator import Accumulator
from .coordination import Coordination, idempotent_identity
from .identities import Identities
from .sender import Sender
from .settlement import Settlement
from .transaction import State, Transaction


class Upkeep:
    """`coordination` and `transaction` are None without a transactional id.

    Invariant: it wakes the sender only after a change; the sender's rounds wake it in turn, so
    otherwise the two would wake each other forever.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        identities: Identities,
        sender: Sender,
        settlement: Settlement,
        coordination: Coordination | None,
        transaction: Transaction | None,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._identities = identities
        self._sender = sender
        self._settlement = settlement
        self._coordination = coordination
        self._transaction = transaction

    async def run(self) -> None:
        """Send requests as wanted until cancelled."""
        while True:
            await self._sender.upkeep_wanted.wait()
            self._sender.upkeep_wanted = trio.Event()
            if self._transaction is not None:
                await self._add_partitions(self._transaction)
            elif self._identities.is_wanted:
                topics = [queue.topic for queue in self._accumulator.busy]
                if topics:
                    await self._take_identity(topics[0])

    async def _take_identity(self, topic: str) -> None:
        try:
            self._identities.take(await idempotent_identity(self._cluster, topic))
            self._sender.wake()
        except (LoginError, Refused, Unsupported) as error:
            self._settlement.end(error)
        except ClientError:  # no broker answers at the moment
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            self._sender.upkeep_wanted.set()

    async def _add_partitions(self, transaction: Transaction) -> None:
        assert self._coordination is not None
        while transaction.missing and transaction.state in (State.OPEN, State.COMMITTING):
            places = sorted(transaction.missing)
            try:
                await self._coordination.add_partitions(self._identities.current, places)
            except ClientError as error:
                if isinstance(error, ProducerFenced):
                    self._settlement.end(error)
                transaction.doom(error)
                self._settlement.drop_waiting(error)
                return
            transaction.added.update(places)
            transaction.missing.difference_update(places)
            self._sender.wake()
