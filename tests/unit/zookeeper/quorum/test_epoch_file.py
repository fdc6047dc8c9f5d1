"""The file of an epoch: what a save leaves, and what a power cut in the middle of it leaves."""

import pytest

from pybroker_kafka.zookeeper.quorum.epoch_file import (
    PLACE_BYTES,
    EpochFile,
    encode_epoch_file,
    encode_place,
    read_epoch,
)


def saved(data: bytes, epoch: int, written: int = PLACE_BYTES) -> bytes:
    """The file after a save of which so many bytes have reached the disk."""
    at = read_epoch(data).write_at
    assert at is not None
    return data[:at] + encode_place(epoch)[:written] + data[at + written :]


def test_the_last_save_counts() -> None:
    data = encode_epoch_file(9)
    for epoch in (10, 11, 11, 100):
        data = saved(data, epoch)
        assert read_epoch(data).epoch == epoch


def test_a_save_that_is_cut_leaves_the_old_epoch_or_the_new_one() -> None:
    before = saved(encode_epoch_file(9), 10)
    for written in [*range(40), PLACE_BYTES - 1]:
        data = saved(before, 9_999_999_999, written)
        found = read_epoch(data).epoch
        assert found in (10, 9_999_999_999)
        assert read_epoch(saved(data, 10_000_000_000)).epoch == 10_000_000_000
    assert found == 9_999_999_999


@pytest.mark.parametrize(
    ("data", "epoch"),
    [(b"7", 7), (b"12\n", 12), (b"", None), (b"x", None), (b"-1", None)],
)
def test_a_plain_number_is_read_and_replaced(data: bytes, epoch: int | None) -> None:
    assert read_epoch(data) == EpochFile(epoch, None)


def test_damage_of_both_places_is_no_epoch() -> None:
    assert read_epoch(bytes(2 * PLACE_BYTES)) == EpochFile(None, None)
