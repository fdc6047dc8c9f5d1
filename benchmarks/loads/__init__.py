"""All loads, by name, in the order in which they run.

A load is a function that puts one cluster under load once and returns figures by name; the harness
repeats it for each broker in turn. Loads with `nodes` run against clusters that stay up for all of
them and are warm; the others start their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.loads import (
    bulk,
    client_consume,
    client_produce,
    cold_reads,
    connections,
    failover,
    group_requests,
    groups,
    latency,
    lone_records,
    memory,
    offset_commits,
    packed,
    partitions,
    restart,
    small_fetch,
    small_produce,
    start_up,
    three_brokers,
    tls,
    transactions,
)
from benchmarks.loads.base import Load

LOADS: Mapping[str, Load] = {
    load.name: load
    for module in (
        small_produce, small_fetch, bulk, packed, lone_records, tls, latency, connections, groups,
        offset_commits, group_requests, transactions, cold_reads, partitions, client_produce,
        client_consume, three_brokers, start_up, memory, restart, failover,
    )
    for load in module.LOADS
}  # fmt: skip


def chosen(words: list[str]) -> list[Load]:
    """The loads that `words` name: a whole name, or what stands before its first hyphen.

    Raises KeyError with the word that names none.
    """
    picked: dict[str, Load] = {}
    for word in words or list(LOADS):
        plain = word.replace("_", "-")
        found = {
            name: load
            for name, load in LOADS.items()
            if plain in (name, load.family, name.partition("-")[0])
        }
        if not found:
            raise KeyError(word)
        picked |= found
    return [load for name, load in LOADS.items() if name in picked]
