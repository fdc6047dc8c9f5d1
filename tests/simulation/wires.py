"""Links from broker to broker, over the simulated network.

`BrokerConnection` sends one request at a time; so a link is a row of exchanges (`network`), which
says what becomes of each. Messages travel as they are, but for a few that take the form that they
have on the wire. To connect takes no time; a dead broker refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from pybroker_kafka.client.exchanges import Exchanges
from pybroker_kafka.client.security.connector import Link
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.simulation.network import CONNECT_REFUSED_MS, Exchange

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

LISTENER = "PLAINTEXT"
NO_STREAM: Any = None


class Wire(Link):
    """The requester's end; its `stream` is not used."""

    source: Broker
    target: Broker
    generation: int  # of the target's life

    async def ask(self, exchanges: Exchanges, message: Message, api_version: int) -> Message:
        del exchanges
        if self.target.process.generation != self.generation:
            raise trio.BrokenResourceError("reset by the other broker")
        answer: list[Any] = []
        has_answer = trio.Event()

        def answered(response: Any) -> None:
            answer.append(response)
            has_answer.set()

        exchange: Exchange = self.source.call(
            self.target.broker_id, message, api_version, answered, None
        )
        try:
            await has_answer.wait()
        finally:
            if not answer:
                exchange.give_up()
        if answer[0] is None:
            raise trio.BrokenResourceError("reset by the other broker")
        response: Message = answer[0]
        return response

    def close(self) -> None:
        """Nothing is left: who closes it waits for no answer any more."""


async def connect(source: Broker, endpoint: Endpoint) -> Link:
    """Connect to another broker. Raises OSError."""
    target = source.cluster.broker_named(endpoint.host)
    if not target.process.alive:
        await trio.sleep(CONNECT_REFUSED_MS / 1000)
        raise ConnectionRefusedError(f"{endpoint.host} refuses connections")
    wire = Wire(NO_STREAM)
    wire.source, wire.target, wire.generation = source, target, target.process.generation
    return wire
