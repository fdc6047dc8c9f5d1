"""What is looked at before a local cluster starts."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pybroker_kafka.local.cluster_spec import HOST, ClusterSpec, check_ports
from pybroker_kafka.local.cluster_state import ClusterError


@pytest.fixture
def listener() -> socket.socket:
    holder = socket.socket()
    holder.bind((HOST, 0))
    holder.listen()
    return holder


def spec_of(port: int, directory: Path) -> ClusterSpec:
    return ClusterSpec(data_dir=directory, broker_count=1, first_port=port, zookeeper_port=0)


def test_a_taken_port_is_named_with_its_owner(listener: socket.socket, tmp_path: Path) -> None:
    with listener, pytest.raises(ClusterError, match=r"wanted for broker 1, cannot be used: Addr"):
        check_ports(spec_of(listener.getsockname()[1], tmp_path))


def test_a_port_that_becomes_free_is_waited_for(listener: socket.socket, tmp_path: Path) -> None:
    """Its last owner was killed a moment ago, and its threads end one after the other."""
    port = listener.getsockname()[1]
    closing = threading.Timer(0.1, listener.close)
    closing.start()
    check_ports(spec_of(port, tmp_path))
    closing.join()
