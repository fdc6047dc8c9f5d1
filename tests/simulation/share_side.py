"""Share groups in a simulated broker: the real coordinator, leader and handlers, built as in
`broker.coordinators.parts` and `broker.share.parts`, and a leader that tells the book of all that
it gives and takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from pybroker_kafka.broker.coordinators.share_runtime import ShareRuntime
from pybroker_kafka.broker.coordinators.state_persister import StatePersister
from pybroker_kafka.broker.coordinators.topic_image import CachedTopics
from pybroker_kafka.broker.handlers.share_groups import ShareGroupHandlers
from pybroker_kafka.broker.handlers.share_states import ShareStateHandlers
from pybroker_kafka.broker.handlers.shares import ShareHandlers
from pybroker_kafka.broker.share.share_leader import ShareLeader, Stored
from pybroker_kafka.coordinator.share.config import ShareCoordinatorConfig
from pybroker_kafka.protocol.api import ApiKey, request_class
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.share.acknowledging import Acknowledgement
from pybroker_kafka.replication.share.fetching import Acquisition, ShareFetch
from pybroker_kafka.replication.share.sessions import SessionKey, ShareSessions, Wanted
from tests.simulation.broker import REQUEST_TIMEOUT_MS
from tests.simulation.queue_book import QueueBook
from tests.simulation.transactions import LOAD_BYTES, roles_changed, stopped
from tests.simulation.wires import LISTENER

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ServingBroker

MAX_SESSIONS = 20
PRUNE_INTERVAL_MS = 3_000
COLD_INTERVAL_MS = 5_000


class ObservedLeader(ShareLeader):
    book: QueueBook
    broker: ServingBroker

    def _try(self, fetch: ShareFetch, *, is_last: bool) -> Acquisition | None:
        results = super()._try(fetch, is_last=is_last)
        for key, part in (results or {}).items():
            for span in part.acquired:
                served = self.served[fetch.group_id, *key]
                self.book.acquired(self.broker, served, fetch.asked.member_id, *span)
        return results

    def acknowledge(
        self,
        session: SessionKey,
        wanted: Wanted,
        batches: Sequence[Acknowledgement],
        done: Stored,
    ) -> None:
        assert wanted.topic is not None
        key = wanted.topic, wanted.partition
        now_ms = self.broker.now_ms()

        def told(code: ErrorCode, message: str | None) -> None:
            if not code:
                self.book.acknowledged(self.broker, key, session[1], batches, now_ms)
            done(code, message)

        self.book.asked(key, batches)
        super().acknowledge(session, wanted, batches, told)

    def end_session(self, session: SessionKey) -> bool:
        self.book.session_ended(self.broker, session[1])
        return super().end_session(session)


class ShareSide:
    """The parts of one life of a broker."""

    def __init__(self, broker: ServingBroker) -> None:
        cluster, metadata = broker.cluster, broker.manager.metadata
        self.states = ShareRuntime(
            broker.replicas,
            ShareCoordinatorConfig(
                snapshot_update_records_per_snapshot=cluster.snapshot_updates,
                prune_interval_ms=PRUNE_INTERVAL_MS,
                cold_partition_snapshot_interval_ms=COLD_INTERVAL_MS,
                write_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            CachedTopics(metadata), clock=broker.now_ms, load_buffer_bytes=LOAD_BYTES,
        )  # fmt: skip
        self.persister = StatePersister(
            metadata, LISTENER, str(broker.broker_id), self.states, lambda _topic: None,
            connect=broker.connect, timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        broker.groups.keep_states_with(self.persister)
        self.leader = ObservedLeader(
            broker.replicas, self.persister, lambda _group: cluster.share_settings,
            ShareSessions(MAX_SESSIONS), clock=broker.now_ms,
        )  # fmt: skip
        self.leader.book, self.leader.broker = cluster.queue_book, broker
        broker.replicas.on_share_fetches_due = self.leader.on_due
        broker.orders.on_leadership.append(partial(roles_changed, self.states))
        broker.orders.on_stopped.append(partial(stopped, self.states))
        for key, handle in ShareStateHandlers(self.states).handlers().items():
            broker.served[request_class(key)] = handle
        shares = ShareHandlers(self.leader, broker.manager, lambda: broker.levels)
        self.handlers: dict[ApiKey, Any] = {
            **shares.handlers(),
            ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHandlers(broker.groups).heartbeat,
        }

    async def begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.states.run, 1)
        await nursery.start(self.persister.run)
        await nursery.start(self.leader.run)
