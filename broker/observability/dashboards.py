"""Dashboards for Grafana on the metrics that brokers export: cluster, topic, group, broker inside.

Pure: `dashboards()` returns Grafana's import files. A panel's description is the help text of the
first metric in its first query; a test checks that each query names metrics and labels that exist.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .catalogue import CATALOGUE

_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
_SCHEMA_VERSION = 39
_METRIC = re.compile(r"\b(?:kafka|pybroker|process|python)_\w+")


class Panel(NamedTuple):
    """`queries` by legend; `unit` is Grafana's."""

    title: str
    unit: str
    queries: dict[str, str]


_TOPIC = "kafka_server_brokertopicmetrics_"
_REQUESTS = "kafka_network_requestmetrics_"
_ON = '{instance=~"$instance"}'
_OF = '{topic=~"$topic",topic!=""}'
_GROUP = '{consumergroup=~"$group"}'


def _rate(metric: str, labels: str, by: str = "") -> str:
    inner = f"rate({metric}{labels}[$__rate_interval])"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def _p99(phase: str) -> str:
    return (
        f"max by (request) ({_REQUESTS}{phase}timems"
        '{quantile="0.99",instance=~"$instance",request=~"Produce|Fetch.*|OffsetCommit"})'
    )


CLUSTER = (
    Panel(
        "Controllers", "none", {"": "sum(kafka_controller_kafkacontroller_activecontrollercount)"}
    ),
    Panel("Brokers", "none", {"": "max(kafka_controller_kafkacontroller_activebrokercount)"}),
    Panel(
        "Partitions without a leader",
        "none",
        {"": "sum(kafka_controller_kafkacontroller_offlinepartitionscount)"},
    ),
    Panel(
        "Under-replicated partitions",
        "none",
        {"{{instance}}": "kafka_server_replicamanager_underreplicatedpartitions"},
    ),
    Panel(
        "Under min.insync.replicas",
        "none",
        {"{{instance}}": "kafka_server_replicamanager_underminisrpartitioncount"},
    ),
    Panel(
        "Leaders",
        "none",
        {"{{instance}}": "kafka_server_replicamanager_leadercount"},
    ),
    Panel(
        "Bytes in and out",
        "Bps",
        {
            "in": _rate(f"{_TOPIC}bytesin_total", '{topic=""}'),
            "out": _rate(f"{_TOPIC}bytesout_total", '{topic=""}'),
        },
    ),
    Panel("Records in", "cps", {"": _rate(f"{_TOPIC}messagesin_total", '{topic=""}')}),
    Panel("Requests", "reqps", {"{{request}}": _rate(f"{_REQUESTS}requests_total", "", "request")}),
    Panel(
        "ISR changes",
        "cps",
        {
            "shrinks": _rate("kafka_server_replicamanager_isrshrinks_total", ""),
            "expands": _rate("kafka_server_replicamanager_isrexpands_total", ""),
        },
    ),
    Panel(
        "Elections",
        "none",
        {
            "all": "increase(kafka_controller_controllerstats_leaderelectionrateandtimems_count"
            "[$__rate_interval])",
            "unclean": "increase(kafka_controller_controllerstats_uncleanleaderelections_total"
            "[$__rate_interval])",
        },
    ),
    Panel("Size", "bytes", {"{{instance}}": "sum by (instance) (kafka_log_log_size)"}),
)

TOPIC = (
    Panel("Records in", "cps", {"{{topic}}": _rate(f"{_TOPIC}messagesin_total", _OF, "topic")}),
    Panel("Bytes in", "Bps", {"{{topic}}": _rate(f"{_TOPIC}bytesin_total", _OF, "topic")}),
    Panel("Bytes out", "Bps", {"{{topic}}": _rate(f"{_TOPIC}bytesout_total", _OF, "topic")}),
    Panel(
        "Size of all replicas",
        "bytes",
        {"{{topic}}": f"sum by (topic) (kafka_log_log_size{_OF})"},
    ),
    Panel(
        "Log end offset",
        "none",
        {"{{topic}}-{{partition}}": f"max by (topic, partition) (kafka_log_log_logendoffset{_OF})"},
    ),
    Panel(
        "Segments",
        "none",
        {"{{topic}}": f"sum by (topic) (kafka_log_log_numlogsegments{_OF})"},
    ),
    Panel(
        "Under-replicated",
        "none",
        {"{{topic}}": f"sum by (topic) (kafka_cluster_partition_underreplicated{_OF})"},
    ),
    Panel(
        "Replicas in sync",
        "none",
        {
            "{{topic}}-{{partition}}": "sum by (topic, partition) "
            f"(kafka_cluster_partition_insyncreplicascount{_OF})"
        },
    ),
    Panel(
        "Behind the last stable offset",
        "none",
        {
            "{{topic}}-{{partition}}": "max by (topic, partition) "
            f"(kafka_cluster_partition_laststableoffsetlag{_OF})"
        },
    ),
    Panel(
        "Failed requests",
        "cps",
        {
            "produce": _rate(f"{_TOPIC}failedproducerequests_total", _OF),
            "fetch": _rate(f"{_TOPIC}failedfetchrequests_total", _OF),
        },
    ),
    Panel(
        "Lag of groups",
        "none",
        {
            "{{consumergroup}}": "sum by (consumergroup) (kafka_consumergroup_lag_sum"
            '{topic=~"$topic"})'
        },
    ),
)

GROUP = (
    Panel(
        "Lag",
        "none",
        {"{{consumergroup}} {{topic}}": f"kafka_consumergroup_lag_sum{_GROUP}"},
    ),
    Panel(
        "Lag of each partition",
        "none",
        {"{{topic}}-{{partition}}": f"kafka_consumergroup_lag{_GROUP}"},
    ),
    Panel(
        "Records committed",
        "cps",
        {
            "{{consumergroup}} {{topic}}": "sum by (consumergroup, topic) "
            f"(rate(kafka_consumergroup_current_offset{_GROUP}[$__rate_interval]))"
        },
    ),
    Panel("Members", "none", {"{{consumergroup}}": f"kafka_consumergroup_members{_GROUP}"}),
    Panel(
        "Groups by state",
        "none",
        {
            state: f"sum(kafka_coordinator_group_groupmetadatamanager_numgroups{state})"
            for state in ("stable", "empty", "preparingrebalance", "completingrebalance", "dead")
        },
    ),
    Panel(
        "Rebalances",
        "cps",
        {"": _rate("kafka_server_group_coordinator_metrics_group_completed_rebalance_count", "")},
    ),
    Panel(
        "Commits",
        "cps",
        {"": _rate("kafka_server_group_coordinator_metrics_offset_commit_count", "")},
    ),
)

BROKER = (
    Panel("p99 of requests, whole", "ms", {"{{request}}": _p99("total")}),
    Panel("p99 in the request queue", "ms", {"{{request}}": _p99("requestqueue")}),
    Panel("p99 of work", "ms", {"{{request}}": _p99("local")}),
    Panel("p99 in purgatory", "ms", {"{{request}}": _p99("remote")}),
    Panel("p99 of sending answers", "ms", {"{{request}}": _p99("responsesend")}),
    Panel(
        "Waiting in purgatory",
        "none",
        {
            "{{delayedOperation}}": "sum by (delayedOperation) "
            f"(kafka_server_delayedoperationpurgatory_purgatorysize{_ON})"
        },
    ),
    Panel(
        "Idle",
        "percentunit",
        {
            "network": f"kafka_network_socketserver_networkprocessoravgidlepercent{_ON}",
            "handlers": "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent" + _ON,
        },
    ),
    Panel(
        "Queues",
        "none",
        {
            "requests": f"kafka_network_requestchannel_requestqueuesize{_ON}",
            "answers": f"kafka_network_requestchannel_responsequeuesize{_ON}",
        },
    ),
    Panel(
        "Connections",
        "none",
        {"{{instance}}": f"kafka_server_socketservermetrics_connection_count{_ON}"},
    ),
    Panel(
        "Errors",
        "cps",
        {"{{request}} {{error}}": _rate(f"{_REQUESTS}errors_total", _ON, "request, error")},
    ),
    Panel(
        "Behind its leaders",
        "none",
        {"{{instance}}": f"kafka_server_replicafetchermanager_maxlag{_ON}"},
    ),
    Panel(
        "Longest stall and collection",
        "s",
        {
            "loop": f"pybroker_loop_stall_longest_seconds{_ON}",
            "collector": f"pybroker_gc_pause_longest_seconds{_ON}",
        },
    ),
    Panel("Memory", "bytes", {"{{instance}}": f"process_resident_memory_bytes{_ON}"}),
    Panel("CPU", "percentunit", {"{{instance}}": f"rate(process_cpu_seconds_total{_ON}[1m])"}),
    Panel("Descriptors", "none", {"{{instance}}": f"process_open_fds{_ON}"}),
    Panel(
        "Throttled clients",
        "ms",
        {"{{resource}} {{user}} {{clientId}}": f"kafka_server_quota_throttle_time{_ON} > 0"},
    ),
    Panel(
        "Compaction",
        "percent",
        {"dirtiest log": f"kafka_log_logcleanermanager_max_dirty_percent{_ON}"},
    ),
)

# By file name: title, panels, and the variables whose values come from a metric's label.
DASHBOARDS: dict[str, tuple[str, tuple[Panel, ...], dict[str, tuple[str, str]]]] = {
    "cluster": ("Kafka: cluster", CLUSTER, {}),
    "topic": ("Kafka: topics", TOPIC, {"topic": ("kafka_log_log_size", "topic")}),
    "group": ("Kafka: groups", GROUP, {"group": ("kafka_consumergroup_members", "consumergroup")}),
    "broker": (
        "Kafka: inside of a broker",
        BROKER,
        {"instance": ("kafka_server_kafkaserver_brokerstate", "instance")},
    ),
}


def dashboards() -> dict[str, dict[str, Any]]:
    """Grafana's import files, by file name without the extension."""
    return {
        name: _dashboard(name, title, panels, variables)
        for name, (title, panels, variables) in DASHBOARDS.items()
    }


_SOURCE = {"type": "prometheus", "uid": "${source}"}


def _dashboard(
    name: str, title: str, panels: tuple[Panel, ...], variables: dict[str, tuple[str, str]]
) -> dict[str, Any]:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    chosen = [
        {
            "name": variable,
            "type": "query",
            "datasource": _SOURCE,
            "query": f"label_values({metric}, {label})",
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "current": {"text": ["All"], "value": ["$__all"]},
        }
        for variable, (metric, label) in variables.items()
    ]
    return {
        "uid": f"pybroker-{name}",
        "title": title,
        "tags": ["kafka", "pybroker"],
        "schemaVersion": _SCHEMA_VERSION,
        "refresh": "10s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [source, *chosen]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    queries = list(panel.queries.items())
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": _description(queries[0][1]),
        "datasource": _SOURCE,
        "gridPos": {
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend or panel.title}
            for place, (legend, query) in enumerate(queries)
        ],
    }


def _description(query: str) -> str:
    found = _METRIC.search(query)
    described = CATALOGUE.get(found.group()) if found else None
    return described.help if described else ""
