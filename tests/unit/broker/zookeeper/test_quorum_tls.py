"""TLS between members: contexts of ZooKeeper's keys, and connections that are refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.zookeeper.quorum_tls import QuorumTls, accepted, connected, quorum_tls
from pybroker_kafka.local.certificates import prepare_certificates
from pybroker_kafka.zookeeper.quorum.ensemble_config import ConfigurationError

HOST = "127.0.0.1"


def keys(directory: Path, member: str = "zk", names: tuple[str, ...] = (HOST,)) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    prepare_certificates(directory, "a member", [member], names)
    return {
        "ssl.quorum.keyStore.location": str(directory / f"{member}.pem"),
        "ssl.quorum.trustStore.location": str(directory / "ca.pem"),
    }


async def exchange(server: QuorumTls | None, client: QuorumTls | None) -> bytes:
    """The answer to a greeting over a real connection; empty if one of both refuses the other."""
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)

    async def serve() -> None:
        plain = await listener.accept()
        try:
            with trio.move_on_after(5):
                stream = await accepted(plain, server)
                await stream.send_all(b"re: " + await stream.receive_some())
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(plain)

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        plain = await trio.open_tcp_stream(HOST, listener.socket.getsockname()[1])
        async with plain:
            try:
                stream = await connected(plain, HOST, client)
                await stream.send_all(b"hello")
                return bytes(await stream.receive_some())
            except trio.BrokenResourceError:
                return b""


async def test_members_of_one_authority(tmp_path: Path) -> None:
    tls = quorum_tls(keys(tmp_path))
    assert await exchange(tls, tls) == b"re: hello"
    assert tls.server.verify_mode is ssl.CERT_REQUIRED


async def test_a_member_of_another_authority(tmp_path: Path) -> None:
    ours, theirs = quorum_tls(keys(tmp_path / "a")), quorum_tls(keys(tmp_path / "b"))
    assert await exchange(theirs, ours) == b""
    both = keys(tmp_path / "a")["ssl.quorum.trustStore.location"]
    trusting = quorum_tls({**keys(tmp_path / "b"), "ssl.quorum.trustStore.location": both})
    assert await exchange(ours, trusting) == b""  # it trusts us, and we not it


async def test_no_certificate_and_no_tls(tmp_path: Path) -> None:
    ours = quorum_tls(keys(tmp_path))
    anonymous = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert await exchange(ours, QuorumTls(ours.server, anonymous)) == b""
    assert b"hello" not in await exchange(ours, None)


async def test_the_hosts_name(tmp_path: Path) -> None:
    wrong = keys(tmp_path, names=("zk1.example",))
    tls = quorum_tls(wrong)
    assert await exchange(tls, tls) == b""
    unchecked = quorum_tls({**wrong, "ssl.quorum.hostnameVerification": "false"})
    assert await exchange(unchecked, unchecked) == b"re: hello"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ssl.quorum.keyStore.location": None}, "needs ssl.quorum.keyStore.location"),
        ({"ssl.quorum.trustStore.location": None}, "needs ssl.quorum.trustStore.location"),
        ({"ssl.quorum.keyStore.location": "/nowhere/k.store"}, "its type is not set"),
        ({"ssl.quorum.keyStore.location": "/nowhere/k.pem"}, "/nowhere/k.pem"),
        ({"ssl.quorum.clientAuth": "perhaps"}, "none, want or need"),
        ({"ssl.quorum.enabledProtocols": "SSLv3"}, "ssl.quorum.enabledProtocols"),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, change: dict[str, str | None], reason: str) -> None:
    changed = {**keys(tmp_path), **change}
    with pytest.raises(ConfigurationError, match=reason):
        quorum_tls({key: value for key, value in changed.items() if value is not None})
