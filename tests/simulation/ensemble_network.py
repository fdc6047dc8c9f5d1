"""The network of a simulated ensemble.

The election port may lose messages, and most senders hear that nothing listens at a dead member. A
stream of the quorum port loses nothing and keeps its order, but breaks. Over a cut link nothing
arrives, and its streams break after a while.
"""

import itertools
from functools import partial

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.zookeeper.quorum.leader import Piece
from pybroker_kafka.zookeeper.quorum.member import LEADER_LINK
from tests.simulation.ensemble_register import Violation
from tests.simulation.ensemble_world import Node, Stream, World

SLOW_MS = 150


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self._stream_numbers = itertools.count()
        self._arrivals: dict[tuple[int, bool], int] = {}

    def break_streams(self) -> None:
        """Streams over a cut link hang, and break after a while."""
        for node in self._world.nodes.values():
            for stream in list(node.streams.values()):
                if frozenset((stream.learner, stream.leader)) in self._world.cut:
                    delay_ms = self._world.random.choice((0, 200, 2000))
                    self._world.at(delay_ms, partial(self.break_stream, stream))

    def break_stream(self, stream: Stream) -> None:
        if self._world.nodes[stream.leader].streams.pop(stream, None) is not None:
            member = self._world.nodes[stream.leader].member
            if member is not None:
                member.learner_disconnected(stream)
                self._world.perform(self._world.nodes[stream.leader])
        learner = self._world.nodes[stream.learner]
        if learner.streams.get(LEADER_LINK) == stream:
            del learner.streams[LEADER_LINK]
            if learner.member is not None:
                learner.member.leader_disconnected("the stream broke", self._world.now_ms)
                self._world.perform(learner)

    def send(self, node: Node, stream: Stream | None, piece: Piece) -> None:
        if stream is None:
            return
        if piece is None:
            self._world.at(1, partial(self.break_stream, stream))
        else:
            data = piece if isinstance(piece, bytes) else b"".join(piece)
            self.transmit(stream, node.number == stream.learner, data)

    def notify(self, node: Node, receiver: int, message: bytes) -> None:
        if self._world.is_chaotic and self._world.random.random() < 0.1:
            return
        self._world.at(
            self._world.random.choice((1, 1, 2, 10, 60)),
            lambda: self.notified(node.number, receiver, message),
        )

    def notified(self, sender: int, receiver: int, message: bytes) -> None:
        node = self._world.nodes[receiver]
        if self._world.is_cut(sender, receiver):
            return
        if node.member is not None:
            node.member.notified(sender, message[4:], self._world.now_ms)
            self._world.perform(node)
            return
        asking = self._world.nodes[sender]
        if asking.member is not None and self._world.random.random() < 0.7:
            asking.member.election_refused(receiver, self._world.now_ms)
            self._world.perform(asking)

    def connect(self, node: Node, leader: int, life: int) -> None:
        member = node.member
        if node.life != life or member is None or member.leader_id != leader or member.learner:
            return
        other = self._world.nodes[leader]
        if other.member is None or self._world.is_cut(node.number, leader):
            self._world.at(100, lambda: self.connect(node, leader, life))
            return
        old = node.streams.get(LEADER_LINK)
        if old is not None:
            self.break_stream(old)
        stream = Stream(next(self._stream_numbers), node.number, leader)
        node.streams[LEADER_LINK] = stream
        other.streams[stream] = stream
        other.member.learner_connected(stream, self._world.now_ms)
        member.leader_connected(self._world.now_ms)
        self._world.perform(other)
        self._world.perform(node)

    def transmit(self, stream: Stream, from_learner: bool, data: bytes) -> None:
        key = (stream.number, from_learner)
        delay_ms = self._world.random.choice((1, 1, 2, 4, 30))
        if stream.learner == self._world.slow and not from_learner:
            delay_ms += SLOW_MS
        arrival = max(self._world.now_ms + delay_ms, self._arrivals.get(key, 0))
        self._arrivals[key] = arrival
        self._world.at(
            arrival - self._world.now_ms, lambda: self.arrive(stream, from_learner, data)
        )

    def arrive(self, stream: Stream, from_learner: bool, data: bytes) -> None:
        if self._world.is_cut(stream.learner, stream.leader):
            self.break_stream(stream)
            return
        node = self._world.nodes[stream.leader if from_learner else stream.learner]
        link = stream if from_learner else LEADER_LINK
        member = node.member
        if member is None or node.streams.get(link) != stream:
            return
        try:
            if from_learner:
                member.learner_bytes(stream, data, self._world.now_ms)
            else:
                member.leader_bytes(data, self._world.now_ms)
        except ProtocolError as error:
            raise Violation(f"node {node.number} rejects the bytes of a member: {error}") from error
        self._world.perform(node)
