"""The disk of a member in a simulated ensemble.

It keeps what was flushed, the snapshot and the epochs; of the records that wait to be flushed, a
power cut leaves a random part (`ensembles` decides). With the plant `wrong_truncation` it keeps one
transaction more than its leader asks for.
"""

from pybroker_kafka.zookeeper.quorum.learner import Epochs
from pybroker_kafka.zookeeper.snapshot import Capture, capture
from pybroker_kafka.zookeeper.snapshot_file import decode_snapshot, encode_snapshot
from pybroker_kafka.zookeeper.transactions import (
    CloseSessionTxn,
    CreateSessionTxn,
    Txn,
)
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import close_session_in, decode_txn


class Disk:
    """A member's files: what a power cut leaves is `flushed`, `base` and the epochs."""

    def __init__(self, plant: str | None) -> None:
        self.base: Capture = capture(DataTree(), {})
        self.flushed: list[bytes] = []
        self.waiting: list[bytes] = []
        self._epochs = Epochs(0, 0)
        self._plant = plant

    @property
    def epochs(self) -> Epochs:
        return self._epochs

    def save_accepted_epoch(self, epoch: int) -> None:
        self._epochs = self._epochs._replace(accepted=epoch)

    def save_current_epoch(self, epoch: int) -> None:
        self._epochs = self._epochs._replace(current=epoch)

    def load(self) -> tuple[DataTree, dict[int, int], list[Txn]]:
        data = b"".join(encode_snapshot(self.base))
        tree, sessions, _ = decode_snapshot(data, self.base.zxid)
        txns = [decode_txn(record) for record in self.flushed]
        for txn in txns:
            tree.apply(close_session_in(tree, txn))
            if isinstance(txn.body, CreateSessionTxn):
                sessions[txn.header.session_id] = txn.body.timeout_ms
            elif isinstance(txn.body, CloseSessionTxn):
                sessions.pop(txn.header.session_id, None)
        return tree, sessions, txns

    def truncate(self, zxid: int) -> tuple[DataTree, dict[int, int]] | None:
        if self.base.zxid > zxid:
            return None
        kept = [record for record in self.flushed if decode_txn(record).header.zxid <= zxid]
        if self._plant == "wrong_truncation":
            kept = self.flushed[: len(kept) + 1]
        self.flushed = kept
        tree, sessions, _ = self.load()
        tree.last_zxid = zxid if self._plant == "wrong_truncation" else tree.last_zxid
        return (tree, sessions) if tree.last_zxid == zxid else None

    def install(self, captured: Capture) -> None:
        self.base = captured
        self.flushed = []

    def snapshot(self, tree: DataTree, sessions: dict[int, int]) -> None:
        self.base = capture(tree, sessions)
        self.flushed = []
