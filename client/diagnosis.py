"""Step by step from this machine to a healthy cluster, and the first thing in the way.

Each step gives findings: reach the bootstrap servers, speak the right protocol, log in, read the
metadata, reach each broker at the address that it advertises, see a controller, leaders, replicas
in sync, and space in the log directories.

Invariants: nothing is changed in the cluster; each step has a limit of time, and the first finding
comes within `STEP_SECONDS` and a little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import trio

from ..protocol.apis.metadata import MetadataResponse
from ..protocol.errors import ErrorCode
from .admin.log_dirs import LogDirs
from .cluster import Cluster, parse_address
from .errors import ClientError
from .probing import Peer, Unreached, peer_at, why_unreached

LOGIN_SECONDS: Final = 15.0
FEW_BYTES: Final = 1024**3
FEW_SHARE: Final = 0.05
SHOWN: Final = 5  # names in one line


class State(Enum):
    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


class Finding(NamedTuple):
    """A fact about the way to the cluster, and its remedy if it is no good one."""

    state: State
    text: str
    remedy: str = ""


Report = Callable[[Finding], None]


async def diagnose(bootstrap: str, security: Mapping[str, str], report: Report) -> None:
    """Report findings as they come, up to the first that ends the way."""
    addresses = [parse_address(text) for text in bootstrap.split(",") if text.strip()]
    if not addresses:
        raise ClientError("name at least one broker as HOST:PORT")
    protocol = security.get("security.protocol", "PLAINTEXT").upper()
    reached = [await _check_bootstrap(host, port, protocol, report) for host, port in addresses]
    if not any(reached):
        return
    try:
        async with Cluster(bootstrap, security=security or None) as cluster:
            with trio.fail_after(LOGIN_SECONDS):
                metadata = await cluster.metadata(None)
            report(_described(metadata))
            await _check_advertised(metadata, addresses, report)
            _check_health(metadata, report)
            await _check_disks(cluster, report)
    except trio.TooSlowError:
        report(
            Finding(
                State.BAD,
                f"the brokers took the connection, and did not answer within {LOGIN_SECONDS:.0f} s",
                "see whether the brokers are paused or overloaded: `pybroker status`, their logs",
            )
        )
    except ClientError as error:
        report(Finding(State.BAD, str(error)))


async def _check_bootstrap(host: str, port: int, protocol: str, report: Report) -> bool:
    """Whether a client with these settings can go on to this bootstrap server."""
    address = f"{host}:{port}"
    peer = await peer_at(host, port)
    if isinstance(peer, Unreached):
        report(
            Finding(
                State.BAD,
                f"{address} is not reached: {peer.reason}",
                "start a cluster with `pybroker start`, or name a broker that runs with "
                "--bootstrap-server HOST:PORT",
            )
        )
        return False
    wants_tls = protocol in ("SSL", "SASL_SSL")
    if peer is (Peer.TLS if wants_tls else Peer.KAFKA):
        report(Finding(State.OK, f"{address} is reached, and speaks {peer.value}"))
        return True
    report(Finding(State.BAD, f"{address} is reached, and speaks {peer.value}", _other(peer)))
    return False


def _other(peer: Peer) -> str:
    """The remedy for a port that speaks something else than the client."""
    if peer is Peer.TLS:
        return (
            "give the client security.protocol=SSL or SASL_SSL, with ssl.truststore.location, in a "
            "file: --command-config FILE"
        )
    if peer is Peer.KAFKA:
        return "this port has no TLS: use security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    if peer is Peer.ZOOKEEPER:
        return "clients connect to brokers, mostly at port 9092: name one of these"
    return "name the port of a broker's listener, mostly 9092"


def _described(metadata: MetadataResponse) -> Finding:
    count = len(metadata.brokers)
    brokers = "1 broker" if count == 1 else f"{count} brokers"
    return Finding(State.OK, f"cluster {metadata.cluster_id or '(without an id)'} has {brokers}")


async def _check_advertised(
    metadata: MetadataResponse, bootstrap: Sequence[tuple[str, int]], report: Report
) -> None:
    """Reach each broker where clients are sent to."""
    for broker in sorted(metadata.brokers, key=lambda broker: broker.node_id):
        host, port = broker.host, broker.port
        name = f"broker {broker.node_id}"
        reason = await why_unreached(host, port)
        if reason is None:
            report(Finding(State.OK, f"{name} is reached at {host}:{port}, which it advertises"))
            continue
        asked = ", ".join(f"{host}:{port}" for host, port in bootstrap)
        report(
            Finding(
                State.BAD,
                f"{name} says that it is reached at {host}:{port}, and {reason} (asked at {asked})",
                f"set advertised.listeners of {name} to an address that this machine reaches; if "
                "the address is right, see whether the broker runs",
            )
        )


def _check_health(metadata: MetadataResponse, report: Report) -> None:
    alive = {broker.node_id for broker in metadata.brokers}
    if metadata.controller_id not in alive:
        report(
            Finding(
                State.BAD,
                "there is no controller: topics and leaders do not change",
                "see whether the brokers reach ZooKeeper: zookeeper.connect, and the brokers' logs",
            )
        )
    else:
        report(Finding(State.OK, f"broker {metadata.controller_id} is the controller"))
    leaderless, lagging = [], []
    for topic in metadata.topics:
        for partition in topic.partitions:
            name = f"{topic.name}-{partition.partition_index}"
            if partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE or partition.leader_id < 0:
                leaderless.append(name)
            elif len(partition.isr_nodes) < len(partition.replica_nodes):
                lagging.append(name)
    if leaderless:
        report(
            Finding(
                State.BAD,
                f"{_counted(leaderless, 'partition')} without a leader: {_some(leaderless)}",
                "start the brokers of their replicas; `pybroker topics describe` names them",
            )
        )
    if lagging:
        report(
            Finding(
                State.WARNING,
                f"{_counted(lagging, 'partition')} with replicas out of sync: {_some(lagging)}",
                "see whether all brokers run, and whether their disks and network keep up",
            )
        )
    if not leaderless and not lagging:
        report(Finding(State.OK, "all partitions have leaders, and all replicas are in sync"))


async def _check_disks(cluster: Cluster, report: Report) -> None:
    found = await LogDirs(cluster).describe()
    for broker_id, error in found.errors.items():
        report(Finding(State.WARNING, f"the log directories of broker {broker_id}: {error}"))
    full = False
    for broker_id, directories in found.values.items():
        for one in directories:
            where = f"log directory {one.path} of broker {broker_id}"
            if one.error is not None:
                full = True
                remedy = "see the broker's log; replace the disk, and start the broker again"
                report(Finding(State.BAD, f"{where}: {one.error}", remedy))
            elif 0 <= one.usable_bytes < max(FEW_BYTES, int(one.total_bytes * FEW_SHARE)):
                full = True
                report(
                    Finding(
                        State.WARNING,
                        f"{where} has {one.usable_bytes / 1e9:.1f} GB left",
                        "free space, or shorten retention.ms and retention.bytes of topics",
                    )
                )
    if found.values and not full:
        report(Finding(State.OK, "all log directories are online, and have space left"))


def _counted(names: Sequence[str], noun: str) -> str:
    return f"1 {noun}" if len(names) == 1 else f"{len(names)} {noun}s"


def _some(names: Sequence[str]) -> str:
    left = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {left} more" if left > 0 else "")
