"""Finalized features: the znode /feature, and UpdateFeatures (KIP-584).

Job: a new controller makes sure that /feature enables feature versioning, as 3.9 writes it;
UpdateFeatures changes what is finalized. A broker of Apache Kafka 3.9 in ZooKeeper mode supports no
feature at all, so that every upgrade is refused; a feature that another version has left behind can
be deleted.

Mirrors KafkaController.setupFeatureVersioning and processFeatureUpdates. Unlike Kafka's,
`validate_only` writes nothing here.
"""

import logging
from collections.abc import Mapping

from ...protocol.apis.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.scala_texts import hash_ordered
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import Create, Flow, GetData, SetData, expect, run_one
from ..inter_broker import NEWEST, InterBrokerProtocol
from . import znodes
from .context import ControllerContext
from .leadership import fenced_writes

logger = logging.getLogger("pybroker.replication.controller.features")

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPGRADE_TYPE_SINCE_VERSION = 1


def set_up(protocol: InterBrokerProtocol) -> Flow[None]:
    """/feature stores whether feature versioning is on; 3.9 has no features to finalize here."""
    enabled, version = protocol.has_features, protocol.feature_node
    stored = yield from run_one(GetData(znodes.FEATURE))
    expect(stored, znodes.FEATURE, ZkCode.NO_NODE)
    if stored.code is ZkCode.NO_NODE:
        created = yield from run_one(
            Create(znodes.FEATURE, znodes.encode_features({}, version, enabled))
        )
        expect(created, znodes.FEATURE, ZkCode.NODE_EXISTS)
    elif not znodes.is_feature_node(stored.data, version, enabled=enabled):
        features = znodes.decode_features(stored.data) if enabled else {}
        wanted = znodes.encode_features(features, version, enabled)
        written = yield from run_one(SetData(znodes.FEATURE, wanted))
        expect(written, znodes.FEATURE)


def update(
    context: ControllerContext,
    request: UpdateFeaturesRequest,
    api_version: int,
    protocol: InterBrokerProtocol = NEWEST,
) -> Flow[UpdateFeaturesResponse]:
    """Check each change separately, and write the valid ones, unless the request only validates.
    Refused while feature versioning is off."""
    if not protocol.has_features:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Feature versioning system is disabled.",
        )
    stored = yield from run_one(GetData(znodes.FEATURE))
    existing = znodes.decode_features(expect(stored, znodes.FEATURE).data)
    remaining = dict(existing)
    outcomes: dict[str, KafkaError | None] = {}
    for asked in request.feature_updates:
        try:
            _check(asked, _upgrade_type(asked, api_version), existing)
        except KafkaError as error:
            outcomes[asked.feature] = error
        else:
            outcomes[asked.feature] = None
            remaining.pop(asked.feature, None)
    if remaining != existing and not request.validate_only:
        write = SetData(
            znodes.FEATURE, znodes.encode_features(remaining, protocol.feature_node), stored.version
        )
        (written,) = yield from fenced_writes(context, [write])
        if not written.ok:
            logger.error("cannot write %s: %s", znodes.FEATURE, written.code.name)
            failure = KafkaError(ErrorCode.FEATURE_UPDATE_FAILED)
            outcomes = {name: error or failure for name, error in outcomes.items()}
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=name,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
            # Kafka's answer has the order of a hash map.
            for name in hash_ordered(outcomes)
            for error in (outcomes[name],)
        ],
    )


def _upgrade_type(asked: FeatureUpdateKey, api_version: int) -> int:
    if api_version < UPGRADE_TYPE_SINCE_VERSION:
        return SAFE_DOWNGRADE if asked.allow_downgrade else UPGRADE
    return asked.upgrade_type


def _check(asked: FeatureUpdateKey, upgrade_type: int, existing: Mapping[str, int]) -> None:
    """KafkaError unless this deletes a finalized feature, the only update that can succeed."""
    if not asked.feature:
        problem = "Feature name can not be empty."
    elif upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "Received unknown upgrade type."
    elif asked.max_version_level < 1:
        if upgrade_type == UPGRADE:
            problem = (
                f"Can not provide versionLevel: {asked.max_version_level} less than 1 without "
                "setting the SAFE downgradeType in the request."
            )
        elif asked.feature in existing:
            return
        else:
            problem = "Can not delete non-existing finalized feature."
    else:
        problem = _level_problem(asked, upgrade_type, existing.get(asked.feature))
    raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _level_problem(asked: FeatureUpdateKey, upgrade_type: int, level: int | None) -> str:
    wanted, safe = asked.max_version_level, upgrade_type == SAFE_DOWNGRADE
    if level == wanted:
        return (
            f"Can not {'downgrade' if safe else 'upgrade'} a finalized feature from existing "
            f"versionLevel:{level} to the same value."
        )
    if level is not None and wanted < level and not safe:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{level} to provided "
            f"versionLevel:{wanted} without setting the downgradeType to SAFE in the request."
        )
    if level is not None and wanted > level and upgrade_type != UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided "
            f"versionLevel:{wanted} can not be greater than existing versionLevel:{level}."
        )
    return "Could not apply finalized feature update because the provided feature is not supported."
