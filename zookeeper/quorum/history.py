"""The last transactions of a member's log, in the form in which members exchange them.

Mirrors `ZKDatabase.committedLog` and `LearnerHandler.syncFollower`, which decides how a learner
comes to the leader's state: by the transactions that it lacks (DIFF), after it has dropped those
that the leader never had (TRUNC), or by a snapshot (SNAP).

Invariants: zxids only grow; `last_zxid` is that of the log's end, also when no transaction is kept.
Unlike ZooKeeper's, this one has transactions that are not committed yet, too; a plan names only
committed ones.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.invariants import BrokenInvariant
from .packets import PacketType, epoch_of

KEPT = 500  # `zookeeper.commitLogCount`


class Logged(NamedTuple):
    zxid: int
    data: bytes


class Plan(NamedTuple):
    """How a learner is brought to the leader's state."""

    type: PacketType
    zxid: int
    """The zxid in the DIFF or TRUNC packet."""
    after: int
    """The transactions behind this one follow, in the order of their zxids."""


class History:
    __slots__ = ("_entries", "_kept", "last_zxid")

    def __init__(self, last_zxid: int, recent: Sequence[Logged] = (), kept: int = KEPT) -> None:
        """`recent`: the end of the log; it is of no use if a snapshot has more."""
        is_the_end = bool(recent) and recent[-1].zxid == last_zxid
        self._entries: list[Logged] = list(recent) if is_the_end else []
        self._kept = kept
        self.last_zxid = last_zxid

    def append(self, zxid: int, data: bytes) -> None:
        if zxid <= self.last_zxid:
            raise BrokenInvariant(f"{zxid:#x} is logged behind {self.last_zxid:#x}")
        self._entries.append(Logged(zxid, data))
        self.last_zxid = zxid
        if len(self._entries) >= 2 * self._kept:
            del self._entries[: -self._kept]

    def reset(self, last_zxid: int) -> None:
        """The log begins anew behind a snapshot."""
        self._entries.clear()
        self.last_zxid = last_zxid

    def truncate(self, zxid: int) -> None:
        """The transactions behind `zxid` were dropped from the log, whose last is now `zxid`."""
        del self._entries[self._behind(zxid) :]
        self.last_zxid = zxid

    def behind(self, zxid: int) -> list[Logged]:
        return self._entries[self._behind(zxid) :]

    def plan(self, peer_zxid: int, committed_zxid: int) -> Plan:
        """How a learner whose log ends at `peer_zxid` gets all up to `committed_zxid`."""
        committed = self._entries[: self._behind(committed_zxid)]
        newest = committed[-1].zxid if committed else committed_zxid
        oldest = committed[0].zxid if committed else committed_zxid
        is_new_epoch = peer_zxid & 0xFFFF_FFFF == 0  # a zxid of no transaction: it has no log
        if peer_zxid == committed_zxid:
            return Plan(PacketType.DIFF, peer_zxid, peer_zxid)
        if peer_zxid > newest and not is_new_epoch:
            return Plan(PacketType.TRUNC, newest, newest)
        if not oldest <= peer_zxid <= newest:
            if is_new_epoch and peer_zxid > newest:
                return Plan(PacketType.DIFF, newest, peer_zxid)
            return Plan(PacketType.SNAP, committed_zxid, committed_zxid)
        place = self._behind(peer_zxid)
        before = committed[place - 1].zxid
        if before == peer_zxid or is_new_epoch:
            return Plan(PacketType.DIFF, newest, peer_zxid)
        if epoch_of(committed[place].zxid) != epoch_of(peer_zxid):
            return Plan(PacketType.SNAP, committed_zxid, committed_zxid)
        return Plan(PacketType.TRUNC, before, before)

    def _behind(self, zxid: int) -> int:
        return bisect_right(self._entries, zxid, key=lambda entry: entry.zxid)
