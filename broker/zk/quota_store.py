"""Quota configs in ZooKeeper: /config/clients, /config/users (with clients in them), /config/ips.

Job: flows that list the entities of a kind, read their configs, and write one. An entity that has
no config left is removed, with parents that only held it, rather than left empty.

Mirrors the quota side of kafka.zk.AdminZkClient: fetchAllEntityConfigs, fetchAllChildEntityConfigs
and tryCleanQuotaNodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Delete,
    Flow,
    GetChildren,
    expect,
    run_one,
)
from ...replication.controller import znodes
from .config_store import notify, read_configs, write_config

CLIENTS, USERS, IPS = "clients", "users", "ips"
# Operations that are sent together.
BATCH = 500

Configs = dict[str, dict[str, str]]


def read_kind(kind: str) -> Flow[Configs]:
    """The configs of all clients, users or ips, by their paths."""
    names = yield from _children([kind])
    return (yield from _read_all(f"{kind}/{name}" for name in names[kind]))


def read_clients_of_users() -> Flow[Configs]:
    """The configs of all pairs of a user and a client id, by their paths."""
    users = yield from _children([USERS])
    places = [f"{USERS}/{user}/{CLIENTS}" for user in users[USERS]]
    found = yield from _children(places)
    return (yield from _read_all(f"{place}/{name}" for place in places for name in found[place]))


def read_all_quotas() -> Flow[Configs]:
    found: Configs = {}
    for kind in (CLIENTS, USERS, IPS):
        found.update((yield from read_kind(kind)))
    found.update((yield from read_clients_of_users()))
    return found


def write_quotas(entity: str, config: Mapping[str, str]) -> Flow[int]:
    """Replace the config of an entity and notify all brokers; returns the notification's number."""
    if not config and (yield from _remove(entity)):
        return (yield from notify(entity))
    return (yield from write_config(entity, config))


def _remove(entity: str) -> Flow[bool]:
    """Remove an entity and its emptied parents; False if it has children."""
    parts = entity.split("/")
    found = yield from _children([entity])
    if found[entity]:
        return False
    emptied = [entity]
    if len(parts) == 4:
        user, clients = "/".join(parts[:2]), "/".join(parts[:3])
        found = yield from _children([user, clients])
        if found[clients] == (parts[3],):
            emptied.append(clients)
            config = yield from read_configs([user])
            if not config[user] and found[user] == (parts[2],):
                emptied.append(user)
    for path in emptied:
        removed = yield from run_one(Delete(znodes.config_path(path)))
        if removed.code is ZkCode.NOT_EMPTY:
            break  # another broker has just written below it
        expect(removed, path, ZkCode.NO_NODE)
    return True


def _children(paths: Iterable[str]) -> Flow[dict[str, tuple[str, ...]]]:
    """The names below paths of configs; none below one that is not there."""
    wanted = list(paths)
    found = {}
    for start in range(0, len(wanted), BATCH):
        some = wanted[start : start + BATCH]
        results = yield [GetChildren(znodes.config_path(path)) for path in some]
        for path, result in zip(some, results, strict=True):
            found[path] = expect(result, path, ZkCode.NO_NODE).children
    return found


def _read_all(paths: Iterable[str]) -> Flow[Configs]:
    wanted = list(paths)
    found: Configs = {}
    for start in range(0, len(wanted), BATCH):
        found.update((yield from read_configs(wanted[start : start + BATCH])))
    return found
