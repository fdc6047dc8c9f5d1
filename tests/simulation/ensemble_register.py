"""The node that all clients of a simulated ensemble write and read, and checks of its history."""

from typing import NamedTuple

from pybroker_kafka.protocol.zookeeper import jute

FIRST_VALUE = b"x"


class Violation(AssertionError):
    """A promise was broken; the message has the facts."""


class Found(NamedTuple):
    """The answer to a read, and the epoch of the leader whom its member follows."""

    stat: jute.Stat
    epoch: int


class Register:
    """What was asked, acknowledged and read.

    Writes are linearizable: a write that begins after the answer to another has a larger zxid, no
    two have one version, and versions follow the zxids. A read sees a value that was written at its
    zxid, and no older one than its client saw before. Behind a sync it sees all writes that were
    acknowledged when the sync began, those of newer leaders excepted than its member follows: as
    in ZooKeeper, a sync does not ask a quorum.
    """

    def __init__(self) -> None:
        self.acked: list[int] = []  # zxids of writes, in the order of their answers
        self.asked = {FIRST_VALUE}
        self.values: dict[int, tuple[bytes, int]] = {}  # value and version by zxid
        self.reads = 0

    def newest(self) -> int:
        return max(self.acked, default=0)

    def wrote(self, client: int, floor: int, value: bytes, stat: jute.Stat) -> None:
        if stat.mzxid <= floor:
            raise Violation(
                f"client {client} wrote at {stat.mzxid:#x} after the answer to {floor:#x}"
            )
        self.saw(value, stat)
        self.acked.append(stat.mzxid)

    def read(self, client: int, floor: int, seen: int, value: bytes, found: Found) -> None:
        """`seen`: the newest zxid that the client saw before."""
        stat, epoch = found
        self.reads += 1
        if value not in self.asked:
            raise Violation(f"client {client} reads {value!r}, which was not written")
        if stat.mzxid < seen:
            raise Violation(f"client {client} reads {stat.mzxid:#x} after {seen:#x}")
        if stat.mzxid < floor and floor >> 32 <= epoch:
            raise Violation(
                f"client {client} reads {stat.mzxid:#x} behind a sync that began after {floor:#x}"
            )
        self.saw(value, stat)

    def saw(self, value: bytes, stat: jute.Stat) -> None:
        known = self.values.setdefault(stat.mzxid, (value, stat.version))
        if known != (value, stat.version):
            raise Violation(f"the register has {known} and {value!r} at {stat.mzxid:#x}")

    def check_versions(self) -> None:
        versions = [version for _, (_, version) in sorted(self.values.items())]
        if versions != sorted(set(versions)):
            raise Violation(f"versions of the register do not follow its zxids: {versions}")
