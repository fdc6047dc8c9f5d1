"""The layers of one broker, connected; nothing runs yet.

Job: from a `Ground` (the results of the start so far: configs, broker id, loaded logs) to complete
`Parts`. Each layer is built in its room, from the layers below it: the cluster, replicas,
coordinators, handlers (`<room>/parts.py`), and here the network. Effects that go up (changes of
leadership, of metadata) are listeners, registered here, as are the gauges. The life cycle (what is
started and stopped in which order) is the server's.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..protocol.api import ApiKey
from ..protocol.uuids import uuid_to_text
from ..replication.fetch_session import FetchSessions
from ..replication.metadata_cache import MetadataCache, MetadataUpdate
from ..replication.types import StopResult
from ..storage.table_configs import WAREHOUSE
from . import gauges, settings
from .authorization.guard import AccessGuard
from .cleaner.runtime import CleanerRuntime
from .cluster.parts import Control, Ground, build_control
from .cluster.topic_creation import random_uuid
from .coordinators.parts import Coordinators, build_coordinators, register_gauges
from .handlers.controller_orders import ControllerOrders
from .handlers.parts import Lower, register_handlers
from .logins.logins import Logins
from .network.dispatcher import Dispatcher
from .network.request_meter import meter_clock_ms
from .network.socket_server import SocketServer
from .network.topic_names import TopicNames
from .observability.client_subscriptions import ClientInstances
from .observability.client_telemetry import ClientValues
from .quotas.client_quotas import ClientQuotas
from .replicas.parts import Replicas, build_replicas
from .security.access import DenialLog
from .security.acl_authorizer import AclAuthorizer
from .share.parts import build_share_leader
from .share.share_leader import ShareLeader
from .zk.acl_store import AclStore
from .zk.delegation_token_store import DelegationTokenStore

if TYPE_CHECKING:
    from .remote.parts import Remote
    from .tables.runtime import TableRuntime


class Parts(NamedTuple):
    """A whole broker, at rest."""

    cache: MetadataCache
    dispatcher: Dispatcher
    quotas: ClientQuotas
    sockets: SocketServer
    replicas: Replicas
    control: Control
    coordinators: Coordinators
    share_leader: ShareLeader
    cleaner: CleanerRuntime
    orders: ControllerOrders
    tokens: DelegationTokenStore
    acls: AclStore | None
    """With the authorizer; None without one."""
    logins: Logins
    client_instances: ClientInstances
    client_values: ClientValues
    remote: Remote | None
    """With tiered storage."""
    tables: TableRuntime | None
    """With a warehouse for tables of topics."""


def assemble(
    ground: Ground,
    register_broker: Callable[[], Awaitable[None]],
    address_of: Callable[[str], str],
) -> Parts:
    """`register_broker` is called anew after each lost session, `address_of` a listener once the
    sockets are bound."""
    config = ground.config
    control = build_control(ground, register_broker)
    replicas = build_replicas(ground, control)
    remote = _remote(ground, replicas, address_of)
    coordinators = build_coordinators(ground, control, replicas)
    share_leader = build_share_leader(ground, replicas, coordinators)
    authorizer = settings.acl_authorizer(config)
    acls = None if authorizer is None else AclStore(ground.zookeeper, authorizer)
    tokens = _token_store(ground)
    dispatcher = Dispatcher(ground.metrics)
    dispatcher.hold_back()
    ground.features.on_change = dispatcher.finalized
    quotas = ClientQuotas(*settings.quota_windows(config))
    dispatcher.meter_with(quotas)
    values = ClientValues()
    instances = ClientInstances(
        config.get_int("telemetry.max.bytes"),
        lambda: random_uuid(random.SystemRandom()),
        values.forget,
    )
    lower = Lower(
        control, replicas, coordinators, share_leader, tokens, acls, instances, values, remote
    )
    handlers = register_handlers(ground, lower, dispatcher)
    names = TopicNames(control.cache.topic_name)
    dispatcher.guard_with(
        names if authorizer is None else _guard(authorizer, control, handlers.orders, names)
    )
    sockets = SocketServer(
        dispatcher,
        settings.connection_quotas(config),
        settings.socket_settings(config),
        ground.metrics,
    )
    sockets.short_waits.others_wait = lambda: bool(replicas.fetchers.fetchers.fetchers)
    parts = Parts(
        cache=control.cache,
        dispatcher=dispatcher,
        quotas=quotas,
        sockets=sockets,
        replicas=replicas,
        control=control,
        coordinators=coordinators,
        share_leader=share_leader,
        cleaner=CleanerRuntime(ground.logs, config, ground.clock),
        orders=handlers.orders,
        tokens=tokens,
        acls=acls,
        logins=Logins(
            config,
            ground.trusted_ms,
            ground.metrics,
            dispatcher.handle_frame,
            tokens.tokens.token_credentials,
        ),
        client_instances=instances,
        client_values=values,
        remote=remote,
        tables=_tables(ground, replicas, address_of),
    )
    _listen(ground, parts)
    _register_gauges(ground, parts, handlers.sessions)
    return parts


def _remote(ground: Ground, replicas: Replicas, address_of: Callable[[str], str]) -> Remote | None:
    """Its modules cost brokers without tiered storage nothing."""
    if not ground.config.get_boolean("remote.log.storage.system.enable"):
        return None
    from .remote.parts import build_remote

    return build_remote(ground, replicas, address_of)


def _tables(
    ground: Ground, replicas: Replicas, address_of: Callable[[str], str]
) -> TableRuntime | None:
    """Its modules cost brokers without tables nothing."""
    if not ground.config.get_optional_string(WAREHOUSE):
        return None
    from .tables.parts import build_tables

    return build_tables(ground, replicas, address_of)


def _token_store(ground: Ground) -> DelegationTokenStore:
    return DelegationTokenStore(
        ground.zookeeper,
        settings.delegation_tokens(ground.config),
        ground.clock,
        _new_token_id,
        ground.logs.wall,
    )


def _new_token_id() -> str:
    """A random id that does not begin with a dash: commands would take that for an option."""
    return uuid_to_text(random_uuid(random.SystemRandom()))


def _guard(
    authorizer: AclAuthorizer, control: Control, orders: ControllerOrders, names: TopicNames
) -> AccessGuard:
    on_denied = {ApiKey.UPDATE_METADATA: orders.metadata_denied}
    controller = control.controller
    denials = DenialLog(trio.current_time)
    return AccessGuard(authorizer, denials, lambda: controller.is_active, on_denied, names)


def _listen(ground: Ground, parts: Parts) -> None:
    """Register the listeners for the effects of the controller's requests."""
    orders, replicas = parts.orders, parts.replicas
    orders.on_leadership.append(replicas.fetchers.on_leadership)
    orders.on_leadership.append(replicas.mover.on_leadership)
    orders.on_stopped.append(replicas.fetchers.on_stopped)
    if parts.remote is not None:
        orders.on_leadership.append(parts.remote.tasks.on_leadership)
        orders.on_stopped.append(parts.remote.tasks.on_stopped)
        parts.remote.take_overs.roles = orders
    if parts.tables is not None:
        orders.on_leadership.append(parts.tables.on_leadership)
        orders.on_stopped.append(parts.tables.on_stopped)
    orders.on_metadata.append(replicas.fetchers.on_metadata)
    groups, transactions = parts.coordinators.groups, parts.coordinators.transactions
    shares = parts.coordinators.shares
    orders.on_leadership.append(
        lambda result: groups.on_leadership_change(result.became_leader, result.became_follower)
    )
    orders.on_stopped.append(lambda result: groups.on_leadership_change((), result.stopped))
    orders.on_leadership.append(
        lambda result: transactions.on_leadership_change(
            result.became_leader, result.became_follower
        )
    )
    orders.on_stopped.append(lambda result: transactions.on_leadership_change((), result.stopped))
    orders.on_leadership.append(
        lambda result: shares.on_leadership_change(result.became_leader, result.became_follower)
    )
    orders.on_stopped.append(lambda result: shares.on_leadership_change((), result.stopped))

    def forget_stopped(result: StopResult) -> None:
        if deleted := {topic for topic, _ in result.deleted}:
            for topic in deleted - {log.topic for log in ground.logs.logs()}:
                ground.topic_configs.forget(topic)

    orders.on_stopped.append(forget_stopped)

    def forget_deleted(update: MetadataUpdate) -> None:
        # The configs of a topic that has logs here say what becomes of its table: see above.
        logs = ground.logs
        here = {key[0] for key in update.deleted_partitions if logs.get_log(*key) is not None}
        for topic in update.deleted_topics - here:
            ground.topic_configs.forget(topic)
        groups.on_partitions_deleted(update.deleted_partitions, ground.clock())
        groups.on_topics_changed(update.changed_topics | update.deleted_topics)
        if update.deleted_topics:
            shares.on_topics_deleted()

    orders.on_metadata.append(forget_deleted)
    orders.on_metadata.append(parts.control.waits.metadata_changed)


def _register_gauges(ground: Ground, parts: Parts, sessions: FetchSessions) -> None:
    metrics, replicas = ground.metrics, parts.replicas
    gauges.register_gauges(metrics, replicas.manager, ground.zookeeper)
    gauges.register_transaction_gauges(
        metrics,
        replicas.manager,
        parts.coordinators.verifier,
        ground.clock,
        ground.config.get_int("transaction.max.timeout.ms"),
    )
    gauges.register_session_gauges(metrics, sessions)
    gauges.register_quota_gauges(metrics, parts.quotas, meter_clock_ms)
    replicas.fetchers.register_gauges(metrics)
    replicas.mover.register_gauges(metrics)
    parts.cleaner.register_gauges(metrics)
    register_gauges(ground, parts.control, replicas, parts.coordinators)
    parts.control.controller.register_gauges(metrics)
