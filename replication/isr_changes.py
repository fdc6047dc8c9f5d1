"""Changes of in-sync replica sets: the proposals to the controller, and its answers.

Mirrors Partition.handleAlterPartitionUpdate / maybeShrinkIsr and the ISR meters of ReplicaManager.
Expansions are proposed where followers' fetches are seen (`fetches`).
"""

from collections.abc import Iterable

from ..protocol.errors import ErrorCode
from .hosted_partitions import HostedPartitions
from .types import AlterIsr
from .waiting import WaitingOperations


class IsrChanges:
    __slots__ = ("_hosted", "_waiting", "expands", "failed", "shrinks")

    def __init__(self, hosted: HostedPartitions, waiting: WaitingOperations) -> None:
        self._hosted = hosted
        self._waiting = waiting
        # Counts of changes that the controller has confirmed, or not.
        self.expands = 0
        self.shrinks = 0
        self.failed = 0

    def maybe_shrink(self, now_ms: int) -> None:
        """Propose all partitions' ISRs without replicas that have fallen behind."""
        for partition in self._hosted.partitions.values():
            proposal = partition.propose_isr_shrink(now_ms)
            if proposal is not None:
                self._hosted.effects.append(proposal)

    def altered(
        self,
        proposal: AlterIsr,
        error: ErrorCode,
        isr: Iterable[int],
        partition_epoch: int,
        now_ms: int,
    ) -> None:
        """The controller's answer to an AlterIsr effect."""
        key = (proposal.topic, proposal.partition)
        partition = self._hosted.partitions.get(key)
        if partition is None or not partition.is_leader:
            return
        before = len(partition.isr.committed)
        again = partition.isr_altered(proposal, error, frozenset(isr), partition_epoch)
        self._count(len(partition.isr.committed) - before, error)
        if again is not None:
            self._hosted.effects.append(again)
        elif partition.maybe_advance_high_watermark(now_ms):
            self._waiting.high_watermark_moved(key, partition)

    def _count(self, growth: int, error: ErrorCode) -> None:
        if error:
            self.failed += 1
        elif growth > 0:
            self.expands += 1
        elif growth < 0:
            self.shrinks += 1
