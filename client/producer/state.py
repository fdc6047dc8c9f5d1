"""The state of one producer, which all its parts share: the lowest of its layers.

The layers, bottom to top; each knows only those below it:

    state         batches, identities, the transaction, and the signals that wake tasks
    completion    the outcomes of batches
    sender, metadata keeper, prerequisites, placement    the tasks, and the choice of partitions
    transactions  the calls of a transactional producer
    producer      the calls of all

A part that needs another task to run sets its signal here, so that the two do not know each other.
"""

from __future__ import annotations

import trio

from ..cluster import Cluster
from .accumulator import Accumulator, Limits
from .identities import Identities
from .settings import ProducerSettings
from .transaction import Transaction


class ProducerState:
    """`transaction` is None without a transactional id."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.accumulator = Accumulator(
            Limits(
                batch_bytes=settings.batch_size,
                linger_ms=settings.linger_ms,
                buffer_bytes=settings.buffer_memory,
                delivery_ms=settings.delivery_timeout_ms,
                in_flight=settings.max_in_flight,
            )
        )
        is_transactional = settings.transactional_id is not None
        self.identities = Identities(
            is_transactional=is_transactional, is_used=settings.wants_idempotence
        )
        self.transaction = Transaction() if is_transactional else None
        self.round_wanted = trio.Event()  # of the sender: a batch may be released
        self.prerequisites_wanted = trio.Event()  # an identity, or partitions in the transaction
        self.metadata_wanted = trio.Event()  # leaders may have changed

    def wake_sender(self) -> None:
        """Start a round: something has changed that may release a batch."""
        self.round_wanted.set()
