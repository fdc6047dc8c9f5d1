"""TLS between members: contexts of ZooKeeper's keys, and connections that are refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.zookeeper.quorum_tls import QuorumTls, accepted, connected, quorum_tls
from pybroker_kafka.local.certificates import prepare_certificates
from pybroker_kafka.zookeeper.quorum.ensemble_config import ConfigurationError, QuorumTlsConfig

HOST = "127.0.0.1"


def tls_of(keys: dict[str, str], *, connects: bool = True, takes_plain: bool = False) -> QuorumTls:
    return quorum_tls(QuorumTlsConfig(keys, connects, takes_plain))


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
    tls = tls_of(keys(tmp_path))
    assert await exchange(tls, tls) == b"re: hello"
    assert tls.server.verify_mode is ssl.CERT_REQUIRED


async def test_a_member_of_another_authority(tmp_path: Path) -> None:
    ours, theirs = tls_of(keys(tmp_path / "a")), tls_of(keys(tmp_path / "b"))
    assert await exchange(theirs, ours) == b""
    both = keys(tmp_path / "a")["ssl.quorum.trustStore.location"]
    trusting = tls_of({**keys(tmp_path / "b"), "ssl.quorum.trustStore.location": both})
    assert await exchange(ours, trusting) == b""  # it trusts us, and we not it


async def test_no_certificate_and_no_tls(tmp_path: Path) -> None:
    ours = tls_of(keys(tmp_path))
    anonymous = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert await exchange(ours, QuorumTls(ours.server, anonymous)) == b""
    assert b"hello" not in await exchange(ours, None)


async def test_members_change_to_tls_one_by_one(tmp_path: Path) -> None:
    stores = keys(tmp_path)
    old, new = None, tls_of(stores)
    takes_both = tls_of(stores, connects=False, takes_plain=True)
    with_tls = tls_of(stores, takes_plain=True)
    for server, client in (
        (old, takes_both), (takes_both, old), (takes_both, takes_both), (takes_both, with_tls),
        (with_tls, takes_both), (with_tls, with_tls), (with_tls, new), (new, with_tls),
    ):  # fmt: skip
        assert await exchange(server, client) == b"re: hello"


async def test_the_hosts_name(tmp_path: Path) -> None:
    wrong = keys(tmp_path, names=("zk1.example",))
    tls = tls_of(wrong)
    assert await exchange(tls, tls) == b""
    unchecked = tls_of({**wrong, "ssl.quorum.hostnameVerification": "false"})
    assert await exchange(unchecked, unchecked) == b"re: hello"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ssl.quorum.keyStore.location": None}, "needs ssl.quorum.keyStore.location"),
        ({"ssl.quorum.trustStore.location": None}, "needs ssl.quorum.trustStore.location"),
        ({"ssl.quorum.keyStore.location": "/nowhere/k.store"}, "its type is not set"),
        ({"ssl.quorum.keyStore.location": "/nowhere/k.pem"}, "/nowhere/k.pem"),
        ({"ssl.quorum.keyStore.passwordPath": "/nowhere/p"}, "passwordPath=/nowhere/p: No such"),
        ({"ssl.quorum.clientAuth": "perhaps"}, "none, want or need"),
        ({"ssl.quorum.enabledProtocols": "SSLv3"}, "ssl.quorum.enabledProtocols"),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, change: dict[str, str | None], reason: str) -> None:
    changed = {**keys(tmp_path), **change}
    with pytest.raises(ConfigurationError, match=reason):
        tls_of({key: value for key, value in changed.items() if value is not None})
