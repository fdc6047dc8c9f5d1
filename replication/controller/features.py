"""Finalized features: the znode /feature, and UpdateFeatures (KIP-584).

Job: a new controller makes sure that /feature enables feature versioning, as 3.9 writes it;
UpdateFeatures changes what is finalized. A level is finalized only if every living broker supports
it: a broker of Apache Kafka 3.9 in ZooKeeper mode supports none, so that a mixed cluster stays at
what 3.9 serves. A feature that another version has left behind can be deleted.

Mirrors KafkaController.setupFeatureVersioning and processFeatureUpdates; from version 2 on, the
all-or-nothing answer of FeatureControlManager in Kafka 4.3 (KIP-1022). Unlike 3.9's,
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
from ...protocol.features import SUPPORTED, Levels
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
ALL_OR_NOTHING_SINCE_VERSION = 2


def set_up(protocol: InterBrokerProtocol, of_new_cluster: Levels) -> Flow[None]:
    """/feature stores whether feature versioning is on; what is finalized is kept."""
    enabled, version = protocol.has_features, protocol.feature_node
    stored = yield from run_one(GetData(znodes.FEATURE))
    expect(stored, znodes.FEATURE, ZkCode.NO_NODE)
    if stored.code is ZkCode.NO_NODE:
        created = yield from run_one(
            Create(
                znodes.FEATURE,
                znodes.encode_features(of_new_cluster if enabled else {}, version, enabled),
            )
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
    """Check each change, and write the valid ones, unless the request only validates; from version
    2 on, only if all are valid. Refused while feature versioning is off."""
    if not protocol.has_features:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Feature versioning system is disabled.",
        )
    stored = yield from run_one(GetData(znodes.FEATURE))
    existing = znodes.decode_features(expect(stored, znodes.FEATURE).data)
    wanted = dict(existing)
    outcomes: dict[str, KafkaError | None] = {}
    for asked in request.feature_updates:
        try:
            level = _new_level(asked, _upgrade_type(asked, api_version), existing, context)
        except KafkaError as error:
            outcomes[asked.feature] = error
        else:
            outcomes[asked.feature] = None
            wanted[asked.feature] = level
    wanted = {name: level for name, level in wanted.items() if level}
    is_atomic = api_version >= ALL_OR_NOTHING_SINCE_VERSION
    refused = is_atomic and any(outcomes.values())
    if wanted != existing and not request.validate_only and not refused:
        write = SetData(
            znodes.FEATURE, znodes.encode_features(wanted, protocol.feature_node), stored.version
        )
        (written,) = yield from fenced_writes(context, [write])
        if written.ok:
            logger.info("finalized features: %s", wanted or "none")
        else:
            logger.error("cannot write %s: %s", znodes.FEATURE, written.code.name)
            failure = KafkaError(ErrorCode.FEATURE_UPDATE_FAILED)
            outcomes = {name: error or failure for name, error in outcomes.items()}
    return _once(outcomes) if is_atomic else _for_each(outcomes)


def _for_each(outcomes: Mapping[str, KafkaError | None]) -> UpdateFeaturesResponse:
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


def _once(outcomes: Mapping[str, KafkaError | None]) -> UpdateFeaturesResponse:
    """The first error counts for all, in the words of Kafka 4.3."""
    name, error = next(((n, e) for n, e in outcomes.items() if e), ("", None))
    if error is None:
        return UpdateFeaturesResponse(error_message=None)
    return UpdateFeaturesResponse(
        error_code=error.code,
        error_message=f"The update failed for all features since the following feature had an "
        f"error: {name}: {error.message}",
    )


def _upgrade_type(asked: FeatureUpdateKey, api_version: int) -> int:
    if api_version < UPGRADE_TYPE_SINCE_VERSION:
        return SAFE_DOWNGRADE if asked.allow_downgrade else UPGRADE
    return asked.upgrade_type


def _new_level(
    asked: FeatureUpdateKey,
    upgrade_type: int,
    existing: Mapping[str, int],
    context: ControllerContext,
) -> int:
    """The level to finalize, 0 to delete the feature; KafkaError if that is not possible."""
    wanted = asked.max_version_level
    if not asked.feature:
        problem = "Feature name can not be empty."
    elif upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "Received unknown upgrade type."
    elif wanted < 1:
        if upgrade_type == UPGRADE:
            problem = (
                f"Can not provide versionLevel: {wanted} less than 1 without "
                "setting the SAFE downgradeType in the request."
            )
        elif asked.feature in existing:
            return 0
        else:
            problem = "Can not delete non-existing finalized feature."
    else:
        problem = _level_problem(wanted, upgrade_type, existing.get(asked.feature))
        problem = problem or _support_problem(asked.feature, wanted, context)
        if not problem:
            return wanted
    raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _level_problem(wanted: int, upgrade_type: int, level: int | None) -> str:
    safe = upgrade_type == SAFE_DOWNGRADE
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
    return ""


def _support_problem(feature: str, wanted: int, context: ControllerContext) -> str:
    begin = "Could not apply finalized feature update because"
    if feature not in SUPPORTED:
        return f"{begin} the provided feature is not supported."
    low, high = SUPPORTED[feature]
    if wanted < low:
        return (
            f"{begin} the provided versionLevel:{wanted} is lower than the supported "
            f"minVersion:{low}."
        )
    without = [
        broker.broker_id
        for broker in context.brokers.values()
        if wanted > broker.features.get(feature, (0, 0))[1]
    ]
    if wanted > high or without:
        return f"{begin} brokers were found to have incompatible versions for the feature."
    return ""
