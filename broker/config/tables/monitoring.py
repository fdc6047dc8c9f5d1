"""Metric windows, reporters and client telemetry."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    key,
)

DEFINITIONS = (
    key("metrics.num.samples", INT, "2", LOW, valid=AT_LEAST_1),
    key("metrics.sample.window.ms", LONG, "30000", LOW, valid=AT_LEAST_1),
    key("metric.reporters", LIST, "", LOW, mode=CLUSTER_WIDE),
    key("metrics.recording.level", STRING, "INFO", LOW),
    key("auto.include.jmx.reporter", BOOLEAN, "true", LOW),
    key("kafka.metrics.reporters", LIST, "", LOW),
    key("kafka.metrics.polling.interval.secs", INT, "10", LOW, valid=AT_LEAST_1),
    key(
        "telemetry.max.bytes",
        INT,
        "1048576",
        LOW,
        valid=AT_LEAST_1,
        doc="The most bytes of metrics that a client may push at once, also when unpacked.",
    ),
)
