"""Alert rules for Prometheus, on the metrics that brokers export.

Each describes a problem and its remedy. They fit an Apache Kafka with the JMX exporter as well,
except for alerts on metrics that only we export.
"""

from __future__ import annotations

import json
from typing import NamedTuple


class Alert(NamedTuple):
    """An alert that fires if `expression` has a sample for `minutes`."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    advice: str


_MANAGER = "kafka_server_replicamanager_"
ALERTS = (
    Alert(
        "KafkaBrokerDown",
        'up{job="kafka"} == 0',
        1,
        "critical",
        "{{ $labels.instance }} does not answer.",
        "Read the last lines of its log and start it again: its replicas catch up by themselves.",
    ),
    Alert(
        "KafkaNotOneController",
        "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
        1,
        "critical",
        "{{ $value }} brokers say that they are the controller.",
        "0: check whether ZooKeeper answers. 2: one of them has lost its session and will notice "
        "soon.",
    ),
    Alert(
        "KafkaOfflinePartitions",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        1,
        "critical",
        "{{ $value }} partitions have no leader: clients cannot read or write them.",
        "Start the brokers of their ISR (`pybroker topics describe --leaderless`). An unclean "
        "election loses records.",
    ),
    Alert(
        "KafkaUnderMinIsr",
        f"{_MANAGER}underminisrpartitioncount > 0",
        1,
        "critical",
        "{{ $value }} partitions led by {{ $labels.instance }} take no record with acks=all.",
        "Start the brokers that are missing from their ISRs.",
    ),
    Alert(
        "KafkaUnderReplicated",
        f"{_MANAGER}underreplicatedpartitions > 0",
        5,
        "warning",
        "{{ $value }} partitions led by {{ $labels.instance }} lack a replica.",
        "A broker is down, too slow, or cut off: compare disks and networks of the brokers.",
    ),
    Alert(
        "KafkaUncleanElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]) > 0",
        0,
        "critical",
        "A leader was chosen outside of its ISR: records may be lost.",
        "Compare the acknowledged records with the topic; see unclean.leader.election.enable.",
    ),
    Alert(
        "KafkaLogDirectoryOffline",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        0,
        "critical",
        "{{ $labels.instance }} has lost a log directory.",
        "Repair or replace the disk, then restart the broker.",
    ),
    Alert(
        "KafkaGroupBehind",
        "sum by (consumergroup, topic) (kafka_consumergroup_lag_sum) > 100000",
        10,
        "warning",
        "{{ $labels.consumergroup }} has {{ $value }} records of {{ $labels.topic }} to read.",
        "Add consumers, up to the number of partitions, or find out why they are slow (`pybroker "
        "groups describe`).",
    ),
    Alert(
        "KafkaHangingTransaction",
        f"{_MANAGER}partitionswithlatetransactionscount > 0",
        5,
        "warning",
        "A transaction on {{ $labels.instance }} has outlived every time-out: read_committed "
        "consumers wait behind it.",
        "`pybroker transactions find-hanging`, then `pybroker transactions abort`.",
    ),
    Alert(
        "KafkaLoginsFail",
        "sum by (instance, listener) "
        "(increase(kafka_server_socketservermetrics_failed_authentication_total[5m])) > 10",
        0,
        "warning",
        "{{ $value }} logins at {{ $labels.listener }} of {{ $labels.instance }} failed.",
        "Its log names the addresses: a client has a wrong password, or guesses passwords.",
    ),
    Alert(
        "KafkaCleanerStuck",
        "kafka_log_logcleaner_deadthreadcount > 0 or "
        "kafka_log_logcleanermanager_uncleanable_partitions_count > 0",
        5,
        "warning",
        "{{ $labels.instance }} has stopped compacting a log: the log grows without an end.",
        "Its log names the partition and the error.",
    ),
    Alert(
        "KafkaSessionExpired",
        "increase(kafka_server_sessionexpirelistener_zookeeperexpires_total[10m]) > 0",
        0,
        "warning",
        "{{ $labels.instance }} lost its ZooKeeper session, and with it its leaderships.",
        "Look for pauses of the machine, of ZooKeeper, and of the network between them.",
    ),
    Alert(
        "KafkaLoopStalls",
        "pybroker_loop_stall_longest_seconds > 0.5",
        0,
        "warning",
        "{{ $labels.instance }} did nothing for {{ $value }} seconds.",
        "The machine was busy or asleep, or this is a defect: report it with the log.",
    ),
    Alert(
        "KafkaFewDescriptors",
        "process_open_fds / process_max_fds > 0.8",
        5,
        "warning",
        "{{ $labels.instance }} will run out of file descriptors.",
        "Raise ulimit -n: each connection and each partition takes a descriptor.",
    ),
)


def rules_file() -> str:
    """All alerts, as a file for Prometheus' `rule_files`."""
    lines = ["groups:", "  - name: kafka", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.minutes}m",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.advice)}",
        ]
    return "\n".join(lines) + "\n"
