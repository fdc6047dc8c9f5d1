"""Packets of the quorum port: golden bytes, streams cut anywhere, and malformed ones."""

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.jute import Id
from pybroker_kafka.zookeeper.quorum.packets import (
    ForwardedRequest,
    LearnerInfo,
    PacketReader,
    PacketType,
    QuorumPacket,
    encode_packet,
    epoch_data,
    forwarded_packet,
    read_epoch_data,
    read_forwarded,
    read_learner_info,
    read_revalidation,
    read_touches,
    read_validity,
    revalidation,
    touches_packet,
    validity,
)

GOLDEN = {
    QuorumPacket(PacketType.COMMIT, 0x1_0000_0002): ("000000040000000100000002ffffffffffffffff"),
    QuorumPacket(PacketType.PING, 5, b""): "00000005000000000000000500000000ffffffff",
    QuorumPacket(PacketType.LEADERINFO, 1 << 32, epoch_data(0x10000)): (
        "0000001100000001000000000000000400010000ffffffff"
    ),
}


@pytest.mark.parametrize("packet", GOLDEN)
def test_golden_bytes(packet: QuorumPacket) -> None:
    assert encode_packet(packet).hex() == GOLDEN[packet]


def test_a_forwarded_request_has_the_bytes_of_zookeeper() -> None:
    request = ForwardedRequest(0x7000000000000001, 3, 1, b"body", [Id("ip", "::1")])
    packet = forwarded_packet(request)
    assert packet.data == bytes.fromhex("70000000000000010000000300000001") + b"body"
    assert packet.zxid == -1
    assert read_forwarded(jute.decode(QuorumPacket, encode_packet(packet))) == request


def test_packets_out_of_a_stream_that_is_cut_anywhere() -> None:
    packets = [
        QuorumPacket(PacketType.PROPOSAL, 7, b"x" * 300),
        QuorumPacket(PacketType.REQUEST, -1, b"", [Id("ip", "1.2.3.4"), Id("digest", "u:h")]),
        QuorumPacket(PacketType.SYNC, 0, None, []),
    ]
    stream = b"".join(map(encode_packet, packets))
    for size in (1, 2, 7, 64, len(stream)):
        reader, found = PacketReader(), []
        for start in range(0, len(stream), size):
            reader.feed(stream[start : start + size])
            while (packet := reader.next()) is not None:
                found.append(packet)
        assert found == packets
    reader.feed(stream + b"rest")
    while reader.next() is not None:
        pass
    assert reader.take_rest() == b"rest"
    assert reader.take_rest() == b""


@pytest.mark.parametrize(
    "data",
    [
        "0000000200000000000000017fffffff",  # data of two gigabytes
        "000000020000000000000001fffffffe",
        "000000020000000000000001ffffffff7fffffff",  # as many identities
        "000000020000000000000001ffffffff000000017fffffff",
    ],
)
def test_malformed_packets(data: str) -> None:
    reader = PacketReader()
    reader.feed(bytes.fromhex(data))
    with pytest.raises(ProtocolError):
        reader.next()


def test_contents_of_packets() -> None:
    touched = {1: 6000, -2: 4000}
    assert dict(read_touches(touches_packet(9, touched))) == touched
    assert read_revalidation(revalidation(-5, 6000)) == (-5, 6000)
    assert read_validity(validity(-5, True)) == (-5, True)
    assert read_validity(validity(6, False)) == (6, False)
    info = LearnerInfo(3, 0x10000, 0)
    assert read_learner_info(QuorumPacket(PacketType.FOLLOWERINFO, 0, jute.encode(info))) == info
    old = QuorumPacket(PacketType.FOLLOWERINFO, 0, (3).to_bytes(8, "big"))
    assert read_learner_info(old) == LearnerInfo(3, 0, 0)
    assert read_epoch_data(QuorumPacket(PacketType.ACKEPOCH, 0, epoch_data(-1))) == -1


def test_malformed_contents_of_packets() -> None:
    short = QuorumPacket(PacketType.PING, 0, b"abc")
    for read in (
        read_touches,
        read_revalidation,
        read_validity,
        read_learner_info,
        read_epoch_data,
        read_forwarded,
    ):
        with pytest.raises(ProtocolError):
            read(short)
