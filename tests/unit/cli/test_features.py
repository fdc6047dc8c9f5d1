from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.cli import features
from pybroker_kafka.cli.options import UserError
from pybroker_kafka.client.errors import Refused
from pybroker_kafka.protocol.errors import ErrorCode

SAME = (
    "INVALID_REQUEST: Can not upgrade a finalized feature from existing versionLevel:1 "
    "to the same value."
)
UNSUPPORTED = "brokers were found to have incompatible versions for the feature."


def versions(epoch: int, **finalized: int) -> Any:
    levels = {name: (level, level) for name, level in finalized.items()}
    supported = dict.fromkeys(finalized, (0, 3))
    return SimpleNamespace(
        features_epoch=epoch, finalized_features=levels, supported_features=supported
    )


class Cluster:
    """One broker, which learns of what the controller has finalized at a later look."""

    def __init__(self, late_looks: int, refusal: str) -> None:
        self.late_looks = late_looks
        self.refusal = refusal

    async def api_versions(self) -> Any:
        self.late_looks -= 1
        found = versions(1, group=1) if self.late_looks < 0 else versions(0)
        return SimpleNamespace(values={1: found}, errors={})

    async def update_features(self, levels: Any, *, validate_only: bool) -> Any:
        assert validate_only
        error = Refused(self.refusal, ErrorCode.INVALID_REQUEST)
        return SimpleNamespace(values={}, errors=dict.fromkeys(levels, error))


@pytest.mark.parametrize("late_looks", [0, 1, 3])
async def test_levels_that_the_broker_does_not_know_yet(
    late_looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "LOOK_SECONDS", 0)
    admin: Any = SimpleNamespace(cluster=Cluster(late_looks, SAME))
    assert await features._described(admin) == ({"group": 1}, 1, {"group": (0, 3)})


async def test_features_that_not_all_brokers_support() -> None:
    admin: Any = SimpleNamespace(cluster=Cluster(99, UNSUPPORTED))
    assert await features._described(admin) == ({}, 0, {})


async def test_a_broker_that_never_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "LOOK_SECONDS", 0)
    admin: Any = SimpleNamespace(cluster=Cluster(10_000, SAME))
    with pytest.raises(UserError, match="ask again"):
        await features._described(admin)
