"""Faults put into the membership of our client by the consumer protocol, to see that the simulation
finds them; as `planted`."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import trio

from pybroker_kafka.client.consumer.epoch_member import EpochMember
from tests.simulation import client_members
from tests.simulation.client_apps import Sender
from tests.simulation.client_cluster import simulate_client_2
from tests.simulation.client_members import Member
from tests.simulation.cluster import Result
from tests.simulation.planted_client import among

MAX_SEEDS = 100


def _among_members(planted: Any) -> Any:
    return among(planted, Sender, Member, Member, Member)


def _revoked_partitions_are_kept() -> Any:
    """What the group takes away is read on."""
    reconcile = EpochMember._reconcile

    async def keep(self: EpochMember) -> None:
        before = list(self.work.positions)
        await reconcile(self)
        self.work.positions.assign(dict.fromkeys([*before, *self.work.positions]))

    return _among_members(patch.object(EpochMember, "_reconcile", keep))


def _acknowledged_too_early() -> Any:
    """An assignment is acknowledged, and its partitions are revoked later."""
    reconcile = EpochMember._reconcile

    async def hasty(self: EpochMember) -> None:
        m = self.membership
        owned, m.owned = m.owned, m.owned & m.target
        self.work.bell.ring()
        await trio.sleep(4)
        m.owned = owned
        await reconcile(self)

    return _among_members(patch.object(EpochMember, "_reconcile", hasty))


PLANTED: dict[str, Callable[[], Any]] = {
    "revoked partitions are kept": _revoked_partitions_are_kept,
    "assignments are acknowledged too early": _acknowledged_too_early,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name](), patch.object(client_members, "CONSUMER_PROTOCOL_SHARE", 1.0):
            result = simulate_client_2(seed)
        if result.error is not None:
            return result
    return None
