"""Secrets in files: nobody else may read them."""

from pathlib import Path

import pytest

from pybroker_kafka.broker.resources.secret_file import (
    MAX_BYTES,
    UnsafeSecret,
    read_secret,
)


def secret(path: Path, text: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_it_is_read_without_the_end_of_its_line(tmp_path: Path, end: bytes) -> None:
    assert read_secret(secret(tmp_path / "secret", b"user:p\xc3\xa4ss " + end)).endswith(b"ss ")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret(tmp_path / "secret", b"hidden", mode)
    with pytest.raises(UnsafeSecret, match="chmod 600") as caught:
        read_secret(path)
    assert "hidden" not in str(caught.value)


def test_what_is_no_file_of_a_sensible_size(tmp_path: Path) -> None:
    with pytest.raises(UnsafeSecret, match="No such file"):
        read_secret(tmp_path / "none")
    tmp_path.chmod(0o700)
    with pytest.raises(UnsafeSecret, match="is no file"):
        read_secret(tmp_path)
    path = secret(tmp_path / "secret", bytes(MAX_BYTES + 1))
    with pytest.raises(UnsafeSecret, match="more than"):
        read_secret(path)
