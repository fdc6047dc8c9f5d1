"""A member's files: epochs, a log that is cut, a state that is replaced, stops in between."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.zookeeper.member_storage import MemberStorage
from pybroker_kafka.broker.zookeeper.storage import DataDirectoryError
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.zookeeper.quorum.learner import Epochs
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.transactions import CreateTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import encode_txn
from pybroker_kafka.zookeeper.zookeeper_server import ZooKeeperMachine

EPOCH_1, EPOCH_2 = 1 << 32, 2 << 32


class Machine:
    """As much of a machine as a storage looks at."""

    def __init__(self, tree: DataTree) -> None:
        self.tree = tree


def create(zxid: int) -> Txn:
    body = CreateTxn(f"/n{zxid:x}", b"x", OPEN_ACL, 0, zxid & 0xFFFF)
    return Txn(TxnHeader(1, 1, zxid, 1, Op.CREATE), body)


def append(storage: MemberStorage, tree: DataTree, *zxids: int) -> None:
    records = []
    for zxid in zxids:
        tree.apply(create(zxid))
        records.append(encode_txn(create(zxid)))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            machine: ZooKeeperMachine = Machine(tree)  # type: ignore[assignment]
            await storage.append(records, machine, nursery)

    trio.run(run)


def opened(directory: Path) -> MemberStorage:
    return MemberStorage(directory, fsync=False)


def reopened(storage: MemberStorage) -> MemberStorage:
    assert storage.directory is not None
    storage.close()
    return opened(storage.directory)


def nodes(tree: DataTree) -> set[str]:
    return {path for path in tree.nodes if path.startswith("/n")}


def paths(*zxids: int) -> set[str]:
    return {f"/n{zxid:x}" for zxid in zxids}


def test_epochs_are_kept(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    assert storage.epochs == Epochs(0, 0)
    storage.save_accepted_epoch(3)
    storage.save_current_epoch(2)
    storage = reopened(storage)
    assert storage.epochs == Epochs(3, 2)
    # Apache ZooKeeper takes the directory over: it reads a plain number from each.
    files = tmp_path / "version-2"
    assert (files / "acceptedEpoch").read_text() == "3"
    assert (files / "currentEpoch").read_text() == "2"
    storage.close()
    (files / "currentEpoch").write_text("")
    with pytest.raises(DataDirectoryError, match="currentEpoch has no number"):
        opened(tmp_path)


def test_epochs_of_an_earlier_version_that_stand_alone_are_kept(tmp_path: Path) -> None:
    """Of a member that was killed before its first transaction; it must not vote in them again."""
    (tmp_path / "session.secret").write_bytes(bytes(16))
    for name, epoch in (("acceptedEpoch", 3), ("currentEpoch", 2)):
        (tmp_path / name).write_text(str(epoch))
    for _ in range(2):
        storage = opened(tmp_path)
        assert storage.epochs == Epochs(3, 2)
        storage.close()
    assert not (tmp_path / "acceptedEpoch").exists()


def test_a_lost_secret_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path).close()
    assert caplog.text == ""
    (tmp_path / "session.secret").unlink()
    opened(tmp_path).close()
    assert "session.secret is missing or damaged" in caplog.text


def test_the_log_of_one_alone_gives_the_first_epochs(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    append(storage, storage.recovered.tree, EPOCH_2 | 1)
    storage = reopened(storage)
    assert storage.epochs == Epochs(2, 2)
    storage.close()


def test_several_epochs_in_one_log(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    zxids = (1, 2, EPOCH_1 | 1, EPOCH_1 | 2, EPOCH_2 | 1)
    append(storage, storage.recovered.tree, *zxids)
    storage = reopened(storage)
    assert nodes(storage.recovered.tree) == paths(*zxids)
    assert [txn.header.zxid for txn in storage.recovered.recent] == list(zxids)
    storage.close()


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_a_log_is_cut_and_goes_on(tmp_path: Path, kept: int) -> None:
    zxids = [1, 2, 3, EPOCH_1 | 1, EPOCH_1 | 2]
    storage = opened(tmp_path)
    append(storage, storage.recovered.tree, *zxids[:2])
    storage = reopened(storage)
    append(storage, storage.recovered.tree, *zxids[2:])
    last = zxids[kept - 1] if kept else 0
    state = storage.truncate(last)
    assert state is not None
    tree, _ = state
    assert (nodes(tree), tree.last_zxid) == (paths(*zxids[:kept]), last)
    append(storage, tree, EPOCH_2 | 1)
    storage = reopened(storage)
    assert nodes(storage.recovered.tree) == paths(*zxids[:kept], EPOCH_2 | 1)
    storage.close()


def test_a_log_is_not_cut_where_there_is_no_state(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    other = DataTree()
    other.apply(create(EPOCH_1 | 5))
    storage.install(capture(other, {}))
    append(storage, other, EPOCH_1 | 6)
    assert storage.truncate(EPOCH_1 | 4) is None
    assert storage.truncate(EPOCH_1 | 5) is not None
    storage.close()


@pytest.mark.parametrize("zxid", [EPOCH_1 | 2, EPOCH_2 | 7])
def test_a_state_is_replaced(tmp_path: Path, zxid: int) -> None:
    """By an earlier one, or by a later one."""
    storage = opened(tmp_path)
    append(storage, storage.recovered.tree, 1, 2, EPOCH_1 | 1, EPOCH_1 | 2, EPOCH_1 | 3)
    other = DataTree()
    other.apply(create(zxid))
    storage.install(capture(other, {5: 6000}))
    append(storage, other, zxid + 1)
    storage = reopened(storage)
    assert nodes(storage.recovered.tree) == paths(zxid, zxid + 1)
    assert storage.recovered.sessions == {5: 6000}
    storage.close()


@pytest.mark.parametrize("zxid", [EPOCH_1 | 2, EPOCH_2 | 7])
def test_a_stop_while_a_state_is_replaced(
    tmp_path: Path, zxid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first step on, the files hold the new state, and never a beginning of the earlier
    one: a member that forgets what it acknowledged votes for leaders who never had it."""
    earlier = (1, 2, EPOCH_1 | 1, EPOCH_1 | 2, EPOCH_1 | 3)

    class Stop(Exception):
        pass

    def stopping(original: Callable[..., None], steps: list[int]) -> Callable[..., None]:
        def run(self: MemberStorage, *arguments: object) -> None:
            if steps[0] == 0:
                raise Stop
            steps[0] -= 1
            original(self, *arguments)

        return run

    original = MemberStorage._sync_directory
    found = []
    for step in range(6):
        directory = tmp_path / str(step)
        directory.mkdir()
        storage = opened(directory)
        append(storage, storage.recovered.tree, *earlier)
        other = DataTree()
        other.apply(create(zxid))
        with monkeypatch.context() as patch:
            patch.setattr(MemberStorage, "_sync_directory", stopping(original, [step]))
            with suppress(Stop):
                storage.install(capture(other, {}))
        storage.close()
        copy = tmp_path / f"{step}-after"
        shutil.copytree(directory, copy)
        after = opened(copy)
        found.append(nodes(after.recovered.tree))
        assert not list((copy / "version-2").glob("whole.*"))
        after.close()
    assert found == [paths(zxid)] * 6
