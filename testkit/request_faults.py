"""Requests that a cluster answers wrongly, late, or not at all, because a test wants it so."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from typing import Any

from ..local.cluster_state import ClusterError
from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from .faults import Fault
from .interceptions import Harm

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")

Tell = Callable[..., dict[int, Any]]  # broker (None: all), order -> answers by broker


class RequestFaults:
    """`KafkaCluster.requests`. Each method harms requests of one API until its fault is undone.

    api: "Produce", "JoinGroup" and so on, as Kafka's documentation names them. client_id: only of
    this client. nth, times: the nth such request and so many in all; None: all that follow. broker:
    only there; each broker counts for itself, and one that is restarted forgets. All of it happens
    in the real broker, behind TLS and logins where there are any.
    """

    def __init__(self, tell: Tell, faults: list[Fault]) -> None:
        self._tell = tell
        self._faults = faults
        self._numbers = itertools.count(1)

    def fail(
        self,
        api: str,
        error: str,
        *,
        client_id: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        broker: int | None = None,
    ) -> RequestFault:
        """Answer with an error ("NOT_LEADER_OR_FOLLOWER"), and carry nothing out."""
        if error not in ErrorCode.__members__:
            raise ClusterError(f"Kafka has no error {error!r}")
        return self._harm(Harm.FAIL, api, broker, client_id, nth, times, error=error)

    def drop(
        self,
        api: str,
        *,
        client_id: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        broker: int | None = None,
    ) -> RequestFault:
        """Neither carry out nor answer; the connection gets no further answer until it is
        closed.
        """
        return self._harm(Harm.DROP, api, broker, client_id, nth, times)

    def close(
        self,
        api: str,
        *,
        client_id: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        broker: int | None = None,
    ) -> RequestFault:
        """Close the connection instead, without carrying anything out."""
        return self._harm(Harm.CLOSE, api, broker, client_id, nth, times)

    def lose_answer(
        self,
        api: str,
        *,
        client_id: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        broker: int | None = None,
    ) -> RequestFault:
        """Carry out, and close the connection instead of the answer: was it done, or not?"""
        return self._harm(Harm.LOSE_ANSWER, api, broker, client_id, nth, times)

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        client_id: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        broker: int | None = None,
    ) -> RequestFault:
        """Carry out and answer so much later; as in Kafka, the connection's later requests wait."""
        return self._harm(Harm.DELAY, api, broker, client_id, nth, times, delay_seconds=seconds)

    def _harm(
        self,
        harm: Harm,
        api: str,
        broker: int | None,
        client_id: str | None,
        nth: int,
        times: int | None,
        *,
        error: str = "NONE",
        delay_seconds: float = 0.0,
    ) -> RequestFault:
        key = _WORDS.sub("_", api).upper()
        if key not in ApiKey.__members__:
            raise ClusterError(f"Kafka has no API {api!r}; it has Produce, Fetch, JoinGroup, ...")
        number = next(self._numbers)
        self._tell(
            broker,
            do="harm",
            number=number,
            api=key,
            harm=harm,
            error=error,
            client_id=client_id,
            nth=nth,
            times=times,
            delay_seconds=delay_seconds,
        )
        return RequestFault(number, f"{harm} {api}", broker, self._tell, self._faults)


class RequestFault(Fault):
    """A fault of requests: `hits` is how many it has harmed."""

    def __init__(
        self, number: int, name: str, broker: int | None, tell: Tell, among: list[Fault]
    ) -> None:
        super().__init__(name, self._spare, among)
        self._number = number
        self._broker = broker
        self._tell = tell
        self._hits = 0

    @property
    def hits(self) -> int:
        if self.is_active:
            return sum(self._tell(self._broker, do="taken", number=self._number).values())
        return self._hits

    def _spare(self) -> None:
        """A broker that does not run any more has forgotten its rules."""
        with contextlib.suppress(ClusterError):
            self._hits = sum(self._tell(self._broker, do="spare", number=self._number).values())
