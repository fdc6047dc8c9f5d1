"""The file with which the embedded ZooKeeper is closed, and which its brokers show to it."""

from __future__ import annotations

from pathlib import Path

from ..broker.resources.secret_file import UnsafeSecret, read_secret
from .cluster_state import ClusterError


def zookeeper_credentials(file: Path | None) -> bytes | None:
    """user:password, or None without a file. Raises ClusterError."""
    if file is None:
        return None
    try:
        credentials = read_secret(file)
    except UnsafeSecret as error:
        raise ClusterError(str(error)) from None
    user, _, password = credentials.partition(b":")
    if not (user and password) or b"\n" in credentials:
        raise ClusterError(f"{file} is not one line user:password")
    return credentials
