"""Limits on new connections a second: of the broker, of each listener, of each address.

A connection over the rate of the broker or the listener waits, with all behind it: the acceptor
sleeps. A connection over the rate of its address is closed, a while later, and then counts for no
rate. A wait is a window at most.

Invariants: the listener of the brokers, if there are others, does not count for the broker's rate.
Addresses that only a default limits are forgotten as client ids are (`limits`).

Mirrors the rates of ConnectionQuotas (KIP-612). Leaves out rates without a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .limits import Limits
from .rates import LimitedRate
from .windows import DEFAULT_WINDOWS, Windows

UNLIMITED: Final = 2_147_483_647
_WHOLE_BROKER: Final = ""


class ConnectionRates:
    __slots__ = ("_addresses", "_rates", "_windows", "by_listener", "of_broker")

    def __init__(
        self,
        of_broker: int = UNLIMITED,
        by_listener: Mapping[str, int] | None = None,
        windows: Windows = DEFAULT_WINDOWS,
    ) -> None:
        self.of_broker = of_broker
        self.by_listener = dict(by_listener or {})
        self._windows = windows
        self._rates: dict[str, LimitedRate] = {}  # by listener
        self._addresses = Limits(lambda limit, _now_ms: self._new_rate(limit))

    def limit_address(self, address: str | None, rate: float | None) -> None:
        """The rate of an address from now on, None for all without one; None takes it away."""
        self._addresses.set(("", address), None if rate == UNLIMITED else rate)

    def accept_wait_ms(self, listener: str, now_ms: float, *, is_protected: bool) -> int:
        """Count a new connection; the time for which its acceptor has to wait."""
        waits = [
            rate.charge(1, now_ms) for rate in self._rates_of(listener, is_protected=is_protected)
        ]
        return max(waits, default=0)

    def turn_away_ms(
        self, listener: str, address: str, now_ms: float, *, is_protected: bool
    ) -> int:
        """The time to hold a connection of `address` before it is closed; 0 admits it.

        To be called once for each accepted connection.
        """
        metered = self._addresses.find("", address, now_ms)
        if metered is None:
            return 0
        wait_ms = metered.meter.charge(1, now_ms)
        if wait_ms:
            metered.meter.record(-1, now_ms)
            for rate in self._rates_of(listener, is_protected=is_protected):
                rate.record(-1, now_ms)
        return wait_ms

    def _rates_of(self, listener: str, *, is_protected: bool) -> list[LimitedRate]:
        """The limited rates that a connection to `listener` counts for."""
        rates = []
        limited = [(listener, self.by_listener.get(listener, UNLIMITED))]
        if not is_protected:
            limited.append((_WHOLE_BROKER, self.of_broker))
        for whose, limit in limited:
            if limit >= UNLIMITED:
                continue
            rate = self._rates.get(whose)
            if rate is None:
                rate = self._rates[whose] = self._new_rate(limit)
            rate.limit = limit  # it may be another one now
            rates.append(rate)
        return rates

    def _new_rate(self, limit: float) -> LimitedRate:
        samples, window_ms = self._windows
        return LimitedRate(limit, samples=samples, window_ms=window_ms, max_throttle_ms=window_ms)
