"""The tasks beside the sender, with the requests that sending depends on: a producer id, partitions
in the transaction, and the leaders of partitions.

Mirrors: the requests that Sender sends for TransactionManager; DefaultMetadataUpdater of
NetworkClient, as far as a producer needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from ...protocol.errors import ErrorCode
from ..cluster import RETRY_BACKOFF_SECONDS, LeaderlessWait, now_ms
from ..errors import ClientError, LoginError, ProducerFenced, Refused, SettingsError, Unsupported
from ..refusals import NotAllowed
from .completion import Completion
from .coordination import Coordination, idempotent_identity
from .state import ProducerState
from .transaction import State, Transaction

PAUSE_SECONDS = 0.1  # between two requests for metadata
LONGEST_WAIT_SECONDS = 60  # then ages of metadata are checked


class Prerequisites:
    """`coordination` is None without a transactional id.

    Invariant: it wakes the sender only after a change; the sender's rounds wake it in turn, so
    otherwise the two would wake each other forever.
    """

    def __init__(
        self, state: ProducerState, completion: Completion, coordination: Coordination | None
    ) -> None:
        self._state = state
        self._completion = completion
        self._coordination = coordination

    async def run(self) -> None:
        """Send requests as wanted until cancelled."""
        state = self._state
        while True:
            await state.prerequisites_wanted.wait()
            state.prerequisites_wanted = trio.Event()
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
            self._completion.end(error)
        except ClientError:  # no broker answers at the moment
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            self._state.prerequisites_wanted.set()

    async def _add_partitions(self, transaction: Transaction) -> None:
        assert self._coordination is not None
        while transaction.missing and transaction.state in (State.OPEN, State.COMMITTING):
            places = sorted(transaction.missing)
            try:
                await self._coordination.add_partitions(self._state.identities.current, places)
            except ClientError as error:
                if isinstance(error, ProducerFenced):
                    self._completion.end(error)
                transaction.doom(error)
                self._completion.drop_waiting(error)
                return
            transaction.added.update(places)
            transaction.missing.difference_update(places)
            self._state.wake_sender()


class MetadataKeeper:
    """Looks up the leaders of partitions with batches, when they seem to have changed."""

    def __init__(self, state: ProducerState, completion: Completion) -> None:
        self._state = state
        self._cluster = state.cluster
        self._accumulator = state.accumulator
        self._completion = completion

    async def run(self) -> None:
        """Refresh stale metadata until cancelled."""
        waits: dict[str, LeaderlessWait] = {}
        while True:
            with trio.move_on_after(LONGEST_WAIT_SECONDS):
                await self._state.metadata_wanted.wait()
            self._state.metadata_wanted = trio.Event()
            topics = {queue.topic for queue in self._accumulator.busy}
            names = self._cluster.cache.to_ask(sorted(topics), now_ms())
            if names:
                await self._ask(names, waits)
                self._state.wake_sender()  # leaders may be known
                await trio.sleep(PAUSE_SECONDS)

    async def _ask(self, names: Sequence[str], waits: dict[str, LeaderlessWait]) -> None:
        try:
            answer = await self._cluster.metadata(names, create_missing=True)
        except (LoginError, SettingsError) as error:
            self._completion.end(error)
            return
        except ClientError as error:
            self._completion.trouble = str(error)
            self._state.metadata_wanted.set()
            return
        for topic in answer.topics:
            name, code = topic.name or "", ErrorCode(topic.error_code)
            refusal = self._cluster.asks("describe", name).refusal(code)
            if refusal is not None:
                self._fail_topic(name, NotAllowed(refusal, code))
                continue
            known = self._cluster.cache.topic(name)
            if known is not None:
                self._accumulator.queues(name, len(known.leaders))
            if code is not ErrorCode.NONE:
                # Metadata of an existing topic may have any error: a broker that has just started
                # and does not know the others yet wants to create the topic, and finds no brokers
                # for it.
                self._completion.trouble = f"topic {name!r}: {code.description}"
                self._completion.want_metadata(name)
                continue
            wanted = [
                queue.partition
                for queue in self._accumulator.busy
                if queue.topic == name and self._cluster.cache.leader(name, queue.partition) is None
            ]
            if not wanted:
                waits.pop(name, None)
                continue
            try:
                waits.setdefault(name, LeaderlessWait(self._cluster.report)).go_on(topic, wanted)
            except ClientError as error:
                for queue in self._accumulator.busy:
                    if queue.topic == name and queue.partition in wanted:
                        self._completion.drop_waiting_in(queue, error)
            self._completion.want_metadata(name)

    def _fail_topic(self, name: str, error: ClientError) -> None:
        for queue in self._accumulator.busy:
            if queue.topic == name:
                self._completion.drop_waiting_in(queue, error)
