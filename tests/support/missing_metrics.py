"""What the JMX exporter shows of Apache Kafka 3.9 and our brokers do not export, and why.

A name ending in `*` stands for all that begin like it.
"""

from __future__ import annotations

_KRAFT = "belongs to KRaft, or to the migration to it"
_THREADS = "belongs to threads that are not here: tasks on one loop do their work"
_JAVA = "belongs to Java's implementation"

MISSING = {
    "jmx_*": "belongs to the exporter",
    "jvm_*": "belongs to the JVM; `python_gc_*` describes Python's collector",
    "kafka_controller_controllerchannelmanager_*": "queues to brokers are not timed",
    "kafka_controller_controllereventmanager_*": "the controller's queue of events is not timed",
    "kafka_controller_controllerstats_*": "the controller counts elections; its other work is not "
    "timed by kind",
    "kafka_controller_kafkacontroller_controllerstate": "each of the controller's steps ends "
    "within one turn of the loop",
    "kafka_controller_kafkacontroller_fencedbrokercount": _KRAFT,
    "kafka_controller_kafkacontroller_zkmigrationstate": _KRAFT,
    "kafka_controller_kafkacontroller_replicas*": "replicas are deleted with their topics, which "
    "are counted",
    "kafka_log_logflushstats_*": "flushes are not timed",
    "kafka_network_acceptor_*": _THREADS,
    "kafka_network_processor_*": "all processors share one loop: see their average",
    "kafka_network_requestmetrics_requestbytes*": "sizes of requests are not sampled",
    "kafka_network_socketserver_controlplane*": "control.plane.listener.name has no effect",
    "kafka_server_addpartitionstotxnmanager_verificationtimems*": "verifications are not timed",
    "kafka_server_brokertopicmetrics_bytesrejected_total": "batches that are too large are not "
    "summed up; their requests are failed ones",
    "kafka_server_brokertopicmetrics_invalid*": "batches refused for their bytes are counted "
    "together, as kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total",
    "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total": "they count as failed "
    "requests",
    "kafka_server_brokertopicmetrics_reassignment*": "counted with other replication",
    "kafka_server_delayedfetchmetrics_expires_total": "a fetch that times out is not counted",
    "kafka_server_delayedoperationpurgatory_numdelayedoperations": "completed operations leave at "
    "once, so it would equal kafka_server_delayedoperationpurgatory_purgatorysize",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count": "the share of idle "
    "time is there",
    "kafka_server_kafkaserver_linux*": "`node_exporter` has them",
    "kafka_server_kafkaserver_yammer_metrics_count": _JAVA,
    "kafka_server_metadataloader_*": _KRAFT,
    "kafka_server_replicaalterlogdirsmanager_*": _THREADS,
    "kafka_server_replicafetchermanager_*": _THREADS,
    "kafka_server_sessionexpirelistener_*": "kazoo gives no reasons; expired sessions are counted",
    "kafka_server_zookeeperclientmetrics_*": "requests to ZooKeeper are not timed",
    "kafka_utils_throttler_*": "the cleaner's pauses are not counted",
}
